#include "base/limits.h"

namespace sluice::limits {
namespace {

constexpr Limit kAll[] = {
#define SLUICE_LIMIT(name, value, unit, sentence) {#name, name, unit, sentence},
#include "base/limits.def"
#undef SLUICE_LIMIT
};

}  // namespace

std::span<const Limit> All() { return kAll; }

}  // namespace sluice::limits
