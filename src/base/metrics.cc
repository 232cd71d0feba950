#include "base/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::metrics {

std::atomic<int64_t> cells[kNumCells] = {};

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

int64_t Read(int32_t cell) { return cells[cell].load(std::memory_order_relaxed); }

struct LabelRow {
  const char* label;
  std::span<const char* const> values;
};

template <typename... Labels>
std::vector<LabelRow> LabelsOf(Counter<Labels...>) {
  return {LabelRow{LabelTraits<Labels>::kLabel, LabelTraits<Labels>::kNames}...};
}

template <typename... Labels>
void Collect(Counter<Labels...> counter, MetricFamily& family) {
  family.type = MetricType::Counter;
  const std::vector<LabelRow> labels = LabelsOf(counter);
  for (int32_t i = 0; i < counter.kCells; ++i) {
    ClientMetric& series = family.metric.emplace_back();
    series.counter.value = static_cast<double>(Read(counter.first + i));
    // The last label varies fastest, as in Cell().
    size_t rest = static_cast<size_t>(i);
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      series.label.insert(series.label.begin(),
                          {label->label, label->values[rest % label->values.size()]});
      rest /= label->values.size();
    }
  }
}

void Collect(Gauge<> gauge, MetricFamily& family) {
  family.type = MetricType::Gauge;
  family.metric.emplace_back().gauge.value = static_cast<double>(Read(gauge.first));
}

template <const auto& kBounds>
void Collect(Histogram<kBounds> histogram, MetricFamily& family) {
  family.type = MetricType::Histogram;
  ClientMetric::Histogram& out = family.metric.emplace_back().histogram;
  int32_t cell = histogram.first;
  // The count is the sum of what was read here, so that it fits the buckets while others add.
  for (double bound : kBounds) {
    out.sample_count += static_cast<uint64_t>(Read(cell++));
    out.bucket.push_back({out.sample_count, bound});
  }
  out.sample_count += static_cast<uint64_t>(Read(cell++));
  out.bucket.push_back({out.sample_count, std::numeric_limits<double>::infinity()});
  out.sample_sum = static_cast<double>(Read(cell)) * 1e-9;
}

void ObserveIn(std::span<const double> bounds, int32_t first, double seconds) {
  constexpr double kSecondsMax = 1e9;  // its nanoseconds still fit the sum's cell
  if (!(seconds > 0)) seconds = 0;
  seconds = std::min(seconds, kSecondsMax);
  auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  int32_t sum = first + static_cast<int32_t>(bounds.size()) + 1;
  cells[first + bucket].fetch_add(1, std::memory_order_relaxed);
  cells[sum].fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
}

}  // namespace

void Observe(ShortHistogram<> h, double seconds) { ObserveIn(kShortBounds, h.first, seconds); }
void Observe(LongHistogram<> h, double seconds) { ObserveIn(kLongBounds, h.first, seconds); }

std::string Expose() {
  std::vector<MetricFamily> families;
  auto add = [&families](const char* name, const char* sentence, auto metric) {
    MetricFamily& family = families.emplace_back();
    family.name = std::string("sluice_") + name;
    family.help = sentence;
    Collect(metric, family);
  };
#define SLUICE_METRIC(Kind, constant, name, unit, labels, sentence) add(name, sentence, constant);
#include "base/metrics.def"
#undef SLUICE_METRIC
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace sluice::metrics
