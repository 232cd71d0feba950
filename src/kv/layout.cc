#include "kv/layout.h"

namespace sluice::kv {

int64_t Layout::block_bytes() const {
  int64_t sum = 0;
  for (const BlockComponent& component : block_components) sum += component.block_bytes();
  return sum;
}

int64_t Layout::slot_bytes() const {
  int64_t sum = 0;
  for (const SlotComponent& component : slot_components) sum += component.slot_bytes();
  return sum;
}

}  // namespace sluice::kv
