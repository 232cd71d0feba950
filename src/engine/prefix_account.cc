#include "engine/prefix_account.h"

#include <algorithm>

#include "base/metrics.h"

namespace sluice::engine {
namespace {

using metrics::HitSource;
using metrics::MissCause;

struct Missing {
  Sequence& sequence;
  const kv::Cache::Hit& hit;
  const kv::Cache& cache;
};

// Of the tokens of one block from `at` on. What the store failed to bring goes first: it would have
// been there although the block was evicted.
MissCause CauseAt(const Missing& missing, int32_t at) {
  const Sequence::Lack& lack = missing.sequence.lack;
  if (lack.begin <= at && at < lack.end) return lack.cause;
  const auto block = static_cast<size_t>(at / kv::kBlockTokens);
  const std::span<const kv::BlockKey> keys = missing.sequence.WholeKeys();
  if (block < keys.size() && missing.cache.WasEvicted(keys[block])) return MissCause::kEvicted;
  if (missing.hit.lacks_room && at == missing.hit.n_tokens) return MissCause::kNoRoom;
  return missing.hit.parts ? MissCause::kParted : MissCause::kUnseen;
}

}  // namespace

int32_t AccountForHit(Sequence& sequence,
                      const kv::Cache::Hit& hit,
                      const kv::Cache& cache,
                      bool shares) {
  const int32_t n_hit = hit.n_tokens;
  const int32_t n_stored =
      std::max(0, std::min(n_hit, sequence.n_fetched_end) - sequence.n_fetched_begin);
  metrics::Add(metrics::kPrefixCacheQueries, sequence.n_prompt);
  metrics::Add(metrics::kPrefixCacheHits, HitSource::kMemory, n_hit - n_stored);
  metrics::Add(metrics::kPrefixCacheHits, HitSource::kStore, n_stored);
  // A hit is even, and at least one row has to draw.
  const bool is_final = n_hit >= ((sequence.n_prompt - 1) & ~1);
  if (!shares || is_final) {
    const MissCause cause = shares ? MissCause::kFinal : MissCause::kOff;
    metrics::Add(metrics::kPrefixCacheMisses, cause, sequence.n_prompt - n_hit);
    return n_stored;
  }
  const Missing missing{.sequence = sequence, .hit = hit, .cache = cache};
  for (int32_t at = n_hit; at < sequence.n_prompt;) {
    const int32_t end = std::min(sequence.n_prompt, (at / kv::kBlockTokens + 1) * kv::kBlockTokens);
    metrics::Add(metrics::kPrefixCacheMisses, CauseAt(missing, at), end - at);
    at = end;
  }
  return n_stored;
}

void AccountForFork(const Sequence& sequence) {
  metrics::Add(metrics::kPrefixCacheQueries, sequence.n_prompt);
  metrics::Add(metrics::kPrefixCacheHits, HitSource::kFork, sequence.n_prompt);
}

}  // namespace sluice::engine
