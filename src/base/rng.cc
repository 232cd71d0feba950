#include "base/rng.h"

#include <Random123/philox.h>

namespace sluice {
namespace {

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

uint64_t RandomBits(const RngKey& key) {
  const r123::Philox4x32::ctr_type counter = {
      {Low(key.position), High(key.position), Low(key.stream), High(key.stream)}};
  const r123::Philox4x32::key_type seed = {{Low(key.seed), High(key.seed)}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(counter, seed);
  return words[0] | uint64_t{words[1]} << 32;
}

double RandomUniform(const RngKey& key) {
  // The middle of one of 2^52 equal intervals: with 53 bits the last middle would round to 1.
  return (static_cast<double>(RandomBits(key) >> 12) + 0.5) * 0x1p-52;
}

}  // namespace sluice
