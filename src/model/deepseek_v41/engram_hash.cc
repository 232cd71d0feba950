#include "model/deepseek_v41/engram_hash.h"

#include <array>
#include <limits>

#include "base/check.h"

namespace sluice::model::deepseek_v41 {
namespace {

using uint128 = unsigned __int128;

// numpy.random.default_rng(seed) for seeds below 2^64: SeedSequence, then PCG64 (XSL-RR 128/64).
// The multipliers of the released tables were drawn with it; numpy guarantees the stream.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed) {
    const std::array<uint64_t, 4> words = SeedWords(seed);
    increment_ = (Join(words[2], words[3]) << 1) | 1;
    Step();
    state_ += Join(words[0], words[1]);
    Step();
  }

  // integers(0, bound), bound > 2^32: below it numpy draws 32 bits. Lemire's method; the few
  // low parts that would favour some values are drawn again.
  uint64_t Below(uint64_t bound) {
    const uint64_t unfair = -bound % bound;  // 2^64 mod bound
    uint128 product;
    do {
      product = static_cast<uint128>(Next()) * bound;
    } while (static_cast<uint64_t>(product) < unfair);
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  static uint128 Join(uint64_t high, uint64_t low) {
    return static_cast<uint128>(high) << 64 | low;
  }

  // SeedSequence(seed).generate_state(4, uint64). The constants are numpy's.
  static std::array<uint64_t, 4> SeedWords(uint64_t seed) {
    uint32_t hash = 0x43b0d7e5;
    const auto scramble = [&hash](uint32_t value, uint32_t multiplier) {
      value ^= hash;
      hash *= multiplier;
      value *= hash;
      return value ^ (value >> 16);
    };
    std::array<uint32_t, 4> pool = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (uint32_t& word : pool) word = scramble(word, 0x931e8875);
    for (size_t from = 0; from < 4; ++from) {
      for (size_t to = 0; to < 4; ++to) {
        if (from == to) continue;
        const uint32_t mixed =
            0xca01f9ddU * pool[to] - 0x4973f715U * scramble(pool[from], 0x931e8875);
        pool[to] = mixed ^ (mixed >> 16);
      }
    }
    hash = 0x8b51f9dd;
    std::array<uint64_t, 4> words{};
    for (size_t i = 0; i < 8; ++i) {
      words[i / 2] |= uint64_t{scramble(pool[i % 4], 0x58f38ded)} << (i % 2 * 32);
    }
    return words;
  }

  void Step() { state_ = state_ * Join(0x2360ed051fc65da4U, 0x4385df649fccf645U) + increment_; }

  uint64_t Next() {
    Step();
    const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    const int turn = static_cast<int>(state_ >> 122);
    return folded >> turn | folded << (-turn & 63);
  }

  uint128 state_ = 0;
  uint128 increment_ = 0;
};

bool IsPrime(int64_t n) {
  if (n % 2 == 0) return n == 2;
  for (int64_t divisor = 3; divisor * divisor <= n; divisor += 2) {
    if (n % divisor == 0) return false;
  }
  return n > 1;
}

// Primes of one order: the next `n_heads` that nobody has. All search from one number upwards, so
// what others have are the primes below `candidate`.
void TakePrimes(int32_t n_heads, int64_t& candidate, std::vector<int64_t>& primes) {
  for (int32_t head = 0; head < n_heads; ++head) {
    while (!IsPrime(candidate)) ++candidate;
    primes.push_back(candidate++);
  }
}

}  // namespace

EngramHash::EngramHash(const EngramHashParams& params) {
  SLUICE_CHECK(params.max_ngram >= 2 && params.n_heads >= 1 && params.vocab_size >= 2);
  SLUICE_CHECK(params.n_classes >= 1 && params.n_classes <= int64_t{1} << 30);
  // Odd multipliers below 2^63 / n_classes: no product with a class passes 2^63.
  const int64_t bound = std::numeric_limits<int64_t>::max() / params.n_classes / 2;
  int64_t candidate = params.vocab_size;
  for (const int32_t layer_id : params.layer_ids) {
    EngramHashLayer layer{.layer_id = layer_id};
    for (int32_t order = 2; order <= params.max_ngram; ++order) {
      TakePrimes(params.n_heads, candidate, layer.primes);
    }
    for (const int64_t prime : layer.primes) {
      layer.offsets.push_back(layer.n_rows);
      layer.n_rows += prime;
    }
    NumpyGenerator generator(10007 * static_cast<uint64_t>(layer_id));
    for (int32_t back = 0; back < params.max_ngram; ++back) {
      const uint64_t draw = generator.Below(static_cast<uint64_t>(bound));
      layer.multipliers.push_back(static_cast<int64_t>(draw) * 2 + 1);
    }
    layers.push_back(std::move(layer));
  }
}

void HashRows(const EngramHashLayer& layer,
              std::span<const int32_t> classes,
              int32_t pad_class,
              int64_t* rows) {
  const size_t max_ngram = layer.multipliers.size();
  const size_t n_heads = layer.primes.size() / (max_ngram - 1);
  bool cut = false;
  int64_t mixed = 0;
  for (size_t back = 0; back < max_ngram; ++back) {
    cut = cut || back >= classes.size() || classes[back] < 0;
    mixed ^= int64_t{cut ? pad_class : classes[back]} * layer.multipliers[back];
    if (back == 0) continue;  // one token is no n-gram
    for (size_t column = (back - 1) * n_heads; column < back * n_heads; ++column) {
      rows[column] = mixed % layer.primes[column] + layer.offsets[column];
    }
  }
}

}  // namespace sluice::model::deepseek_v41
