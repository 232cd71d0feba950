// Metrics: process-wide counters, gauges and histograms, declared in metrics.def.
//
// A metric is a constant with a type; adding to it is one relaxed atomic addition, without lock or
// look-up. Labels are closed enums, so the number of series is fixed when the program is built.
//
// Thread-safe. The one global state of the program besides the log.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace sluice::metrics {

template <typename Label>
struct LabelTraits;  // kLabel, kNames, kCount

// A closed set of label values: the enum and its names, from one list.
#define SLUICE_ENUMERATOR_(enumerator, name) enumerator,
#define SLUICE_NAME_(enumerator, name) name,
#define SLUICE_LABEL(Type, label, VALUES)                           \
  enum class Type : uint8_t { VALUES(SLUICE_ENUMERATOR_) };         \
  template <>                                                       \
  struct LabelTraits<Type> {                                        \
    static constexpr const char* kLabel = label;                    \
    static constexpr const char* kNames[] = {VALUES(SLUICE_NAME_)}; \
    static constexpr int32_t kCount = std::size(kNames);            \
  };

// clang-format off
#define SLUICE_ROUTE_VALUES(X)                                                                  \
  X(kChat, "chat") X(kMessages, "messages") X(kCompletions, "completions")                      \
  X(kResponses, "responses")                                                                    \
  X(kCountTokens, "count_tokens") X(kTokenize, "tokenize") X(kDetokenize, "detokenize")         \
  X(kRender, "render") X(kModels, "models") X(kHealth, "health")                                \
  X(kReady, "ready") X(kMetrics, "metrics") X(kVersion, "version") X(kAdmin, "admin")           \
  X(kRoot, "root") X(kPage, "page") X(kOther, "other")
SLUICE_LABEL(Route, "route", SLUICE_ROUTE_VALUES)

#define SLUICE_STATUS_CLASS_VALUES(X) X(k2xx, "2xx") X(k3xx, "3xx") X(k4xx, "4xx") X(k5xx, "5xx")
SLUICE_LABEL(StatusClass, "status", SLUICE_STATUS_CLASS_VALUES)

#define SLUICE_OUTCOME_VALUES(X)                                                                \
  X(kStop, "stop") X(kLength, "length") X(kStopString, "stop_string")                           \
  X(kCancelled, "cancelled") X(kAborted, "aborted") X(kError, "error") X(kRefused, "refused")
SLUICE_LABEL(Outcome, "outcome", SLUICE_OUTCOME_VALUES)

#define SLUICE_TOKEN_KIND_VALUES(X)                                                             \
  X(kPrompt, "prompt") X(kCached, "cached")                                                     \
  X(kCompletion, "completion") X(kReasoning, "reasoning")
SLUICE_LABEL(TokenKind, "kind", SLUICE_TOKEN_KIND_VALUES)

#define SLUICE_HISTORY_TURN_VALUES(X) X(kSampled, "sampled") X(kRendered, "rendered")
SLUICE_LABEL(HistoryTurn, "kind", SLUICE_HISTORY_TURN_VALUES)

#define SLUICE_RATE_LIMIT_VALUES(X) X(kConcurrency, "concurrency") X(kTokens, "tokens")
SLUICE_LABEL(RateLimit, "kind", SLUICE_RATE_LIMIT_VALUES)

// In the order of wire::RequestClass.
#define SLUICE_CLASS_VALUES(X)                                                                  \
  X(kInteractive, "interactive") X(kDefault, "default") X(kBulk, "bulk")
SLUICE_LABEL(Class, "class", SLUICE_CLASS_VALUES)

// The names are the codes of the API's errors.
#define SLUICE_REFUSAL_VALUES(X)                                                                \
  X(kQueueFull, "queue_full") X(kQueueTokensFull, "queue_tokens_full")                          \
  X(kKeyQueueFull, "key_queue_full") X(kKeyQueueTokensFull, "key_queue_tokens_full")            \
  X(kDeadline, "deadline_unreachable")
SLUICE_LABEL(Refusal, "reason", SLUICE_REFUSAL_VALUES)

#define SLUICE_HIT_SOURCE_VALUES(X) X(kMemory, "memory") X(kFork, "fork") X(kStore, "store")
SLUICE_LABEL(HitSource, "source", SLUICE_HIT_SOURCE_VALUES)

#define SLUICE_MISS_CAUSE_VALUES(X)                                                             \
  X(kUnseen, "unseen") X(kParted, "parted") X(kEvicted, "evicted") X(kFinal, "final")           \
  X(kNoRoom, "no_room") X(kStoreFailed, "store_failed") X(kStoreLate, "store_late")             \
  X(kOff, "off")
SLUICE_LABEL(MissCause, "cause", SLUICE_MISS_CAUSE_VALUES)

#define SLUICE_STORE_CALL_VALUES(X) X(kFind, "find") X(kLoad, "load") X(kSave, "save")
SLUICE_LABEL(StoreCall, "call", SLUICE_STORE_CALL_VALUES)
// clang-format on

// Upper bounds of histogram buckets in seconds, log spaced 1-2-5. Short: work of the host and gaps
// between tokens. Long: what a user waits for, from a cached prompt to the longest answer.
inline constexpr double kShortBounds[] = {1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3,
                                          2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.2,
                                          0.5,  1,    2,    5,    10};
inline constexpr double kLongBounds[] = {1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1,
                                         2,    5,    10,   20,   50,   100,  200, 500, 1000};

// Kinds. Every metric is a run of cells; `first` is where it begins.
template <typename... Labels>
struct Counter {
  static constexpr int32_t kCells = (1 * ... * LabelTraits<Labels>::kCount);
  int32_t first;
};
template <typename... Labels>
struct Gauge {
  static_assert(sizeof...(Labels) == 0, "gauges have no labels");
  static constexpr int32_t kCells = 1;
  int32_t first;
};
// One cell a bucket, one for what is above the last bound, one for the sum in nanoseconds.
template <const auto& kBounds, typename... Labels>
struct Histogram {
  static_assert(sizeof...(Labels) == 0, "histograms have no labels");
  static constexpr int32_t kCells = static_cast<int32_t>(std::size(kBounds)) + 2;
  int32_t first;
};
template <typename... Labels>
using ShortHistogram = Histogram<kShortBounds, Labels...>;
template <typename... Labels>
using LongHistogram = Histogram<kLongBounds, Labels...>;

#define SLUICE_LABELS_(...) __VA_ARGS__
enum class MetricIdx : int32_t {
#define SLUICE_METRIC(Kind, constant, name, unit, labels, sentence) constant,
#include "base/metrics.def"
#undef SLUICE_METRIC
  kCount
};
inline constexpr int32_t kCellsOf[] = {
#define SLUICE_METRIC(Kind, constant, name, unit, labels, sentence) \
  Kind<SLUICE_LABELS_ labels>::kCells,
#include "base/metrics.def"
#undef SLUICE_METRIC
};
constexpr int32_t FirstCell(MetricIdx metric) {
  int32_t first = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(metric); ++i) first += kCellsOf[i];
  return first;
}
#define SLUICE_METRIC(Kind, constant, name, unit, labels, sentence) \
  inline constexpr Kind<SLUICE_LABELS_ labels> constant{FirstCell(MetricIdx::constant)};
#include "base/metrics.def"
#undef SLUICE_METRIC

inline constexpr int32_t kNumCells = FirstCell(MetricIdx::kCount);
extern std::atomic<int64_t> cells[kNumCells];

// The cell of one series; also for tests, which compare before and after.
inline std::atomic<int64_t>& Cell(Counter<> c) { return cells[c.first]; }
inline std::atomic<int64_t>& Cell(Gauge<> g) { return cells[g.first]; }
template <typename L>
std::atomic<int64_t>& Cell(Counter<L> c, std::type_identity_t<L> label) {
  return cells[c.first + static_cast<int32_t>(label)];
}
template <typename L, typename M>
std::atomic<int64_t>& Cell(Counter<L, M> c, std::type_identity_t<L> a, std::type_identity_t<M> b) {
  return cells[c.first + static_cast<int32_t>(a) * LabelTraits<M>::kCount +
               static_cast<int32_t>(b)];
}

inline void Add(Counter<> c, int64_t n = 1) { Cell(c).fetch_add(n, std::memory_order_relaxed); }
template <typename L>
void Add(Counter<L> c, std::type_identity_t<L> label, int64_t n = 1) {
  Cell(c, label).fetch_add(n, std::memory_order_relaxed);
}
template <typename L, typename M>
void Add(Counter<L, M> c, std::type_identity_t<L> a, std::type_identity_t<M> b, int64_t n = 1) {
  Cell(c, a, b).fetch_add(n, std::memory_order_relaxed);
}

inline void Set(Gauge<> g, int64_t value) { Cell(g).store(value, std::memory_order_relaxed); }
inline void AddGauge(Gauge<> g, int64_t delta) {
  Cell(g).fetch_add(delta, std::memory_order_relaxed);
}

// Negative and NaN count as zero.
void Observe(ShortHistogram<> h, double seconds);
void Observe(LongHistogram<> h, double seconds);

// All metrics in the Prometheus text format, version 0.0.4. Series that were never touched are
// there with value 0.
std::string Expose();

}  // namespace sluice::metrics
