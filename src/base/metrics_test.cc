#include "base/metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace sluice::metrics {
namespace {

// The value of one series of the exposition, or NaN.
double Exposed(const std::string& series) {
  std::istringstream lines(Expose());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size()));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

TEST(Metrics, CountersAddUpPerLabel) {
  double chat_before = Exposed(R"(sluice_http_requests_total{route="chat",status="4xx"})");
  double other_before = Exposed(R"(sluice_http_requests_total{route="other",status="2xx"})");
  Add(kHttpRequests, Route::kChat, StatusClass::k4xx);
  Add(kHttpRequests, Route::kChat, StatusClass::k4xx, 2);
  EXPECT_EQ(Exposed(R"(sluice_http_requests_total{route="chat",status="4xx"})"), chat_before + 3);
  EXPECT_EQ(Exposed(R"(sluice_http_requests_total{route="other",status="2xx"})"), other_before);

  double tokens_before = Exposed(R"(sluice_tokens_total{kind="completion"})");
  Add(kTokens, TokenKind::kCompletion, 64);
  EXPECT_EQ(Exposed(R"(sluice_tokens_total{kind="completion"})"), tokens_before + 64);

  int64_t steps_before = Cell(kEngineSteps).load();
  Add(kEngineSteps);
  EXPECT_EQ(Cell(kEngineSteps).load(), steps_before + 1);
}

TEST(Metrics, GaugesAreSetAndMoved) {
  Set(kRequestsRunning, 7);
  AddGauge(kRequestsRunning, -3);
  EXPECT_EQ(Exposed("sluice_requests_running"), 4);
  Set(kRequestsRunning, 0);
}

TEST(Metrics, HistogramBucketsAreCumulativeAndClosedAbove) {
  auto bucket = [](const char* bound) {
    return Exposed(std::string("sluice_e2e_seconds_bucket{le=\"") + bound + "\"}");
  };
  double at_2 = bucket("2"), at_5 = bucket("5"), at_1000 = bucket("1000"), at_inf = bucket("+Inf");
  double count = Exposed("sluice_e2e_seconds_count"), sum = Exposed("sluice_e2e_seconds_sum");
  Observe(kE2e, 2.0);  // on a bound: belongs to it
  Observe(kE2e, 2.25);
  Observe(kE2e, 5000);  // above all
  EXPECT_EQ(bucket("2"), at_2 + 1);
  EXPECT_EQ(bucket("5"), at_5 + 2);
  EXPECT_EQ(bucket("1000"), at_1000 + 2);
  EXPECT_EQ(bucket("+Inf"), at_inf + 3);
  EXPECT_EQ(Exposed("sluice_e2e_seconds_count"), count + 3);
  EXPECT_DOUBLE_EQ(Exposed("sluice_e2e_seconds_sum"), sum + 5004.25);
}

TEST(Metrics, NonsenseObservationsCountAsZeroOrAreCapped) {
  double first = Exposed("sluice_ttft_seconds_bucket{le=\"0.001\"}");
  double sum = Exposed("sluice_ttft_seconds_sum");
  Observe(kTtft, -1);
  Observe(kTtft, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Exposed("sluice_ttft_seconds_bucket{le=\"0.001\"}"), first + 2);
  EXPECT_EQ(Exposed("sluice_ttft_seconds_sum"), sum);
  Observe(kTtft, std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(Exposed("sluice_ttft_seconds_sum"), sum + 1e9);
}

TEST(Metrics, EverySeriesIsExposedOnceWithHelpAndType) {
  std::istringstream lines(Expose());
  std::set<std::string> series, helped, typed;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, kind, name;
    words >> hash >> kind >> name;
    if (line.starts_with("# HELP ")) {
      EXPECT_TRUE(helped.insert(name).second) << line;
      EXPECT_TRUE(name.starts_with("sluice_")) << line;
      EXPECT_TRUE(line.ends_with(".")) << line;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(typed.insert(name).second) << line;
      // The suffix tells a reader the kind.
      std::string type;
      words >> type;
      EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
      EXPECT_EQ(type == "histogram", name.ends_with("_seconds")) << line;
    } else {
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  }
  EXPECT_EQ(helped, typed);
  EXPECT_EQ(helped.size(), static_cast<size_t>(MetricIdx::kCount));
  EXPECT_TRUE(series.contains(R"(sluice_requests_finished_total{outcome="stop_string"})"));
  EXPECT_TRUE(series.contains(R"(sluice_rate_limited_total{kind="concurrency"})"));
}

TEST(Metrics, AdditionsFromManyThreadsAreNotLost) {
  int64_t before = Cell(kHeartbeatsSent).load();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 10'000; ++i) {
        Add(kHeartbeatsSent);
        if (i % 1000 == 0) Expose();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Cell(kHeartbeatsSent).load(), before + 40'000);
}

}  // namespace
}  // namespace sluice::metrics
