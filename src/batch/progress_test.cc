#include "batch/progress.h"

#include <gtest/gtest.h>

namespace sluice::batch {
namespace {

TEST(BatchProgress, SaysHowFarItIsAndWhatIsLeft) {
  Progress progress{.n_rows = 1000, .elapsed = Duration::Seconds(0)};
  EXPECT_EQ(ProgressText(progress), "0/1000 rows (0 %), 0 tokens/s, unknown time left");
  progress = {.n_rows = 1000,
              .n_done = 300,
              .n_failed = 2,
              .n_new = 100,
              .n_tokens = 5000,
              .elapsed = Duration::Seconds(10)};
  EXPECT_EQ(ProgressText(progress),
            "300/1000 rows (30 %), 2 with errors, 500 tokens/s, 1m10s left");
  progress.n_done = 1000;
  EXPECT_EQ(ProgressText(progress),
            "1000/1000 rows (100 %), 2 with errors, 500 tokens/s, none left");
  EXPECT_EQ(ProgressText({}), "0/0 rows (100 %), 0 tokens/s, none left");
}

TEST(BatchProgress, TheBarHasOneWidth) {
  Progress progress{.n_rows = 10, .n_done = 5, .n_new = 5, .elapsed = Duration::Seconds(1)};
  const std::string half = ProgressBar(progress, 80);
  EXPECT_EQ(half.size(), 80u);
  EXPECT_TRUE(half.starts_with("[############            ] 5/10 rows (50 %)")) << half;
  progress.n_done = 10;
  EXPECT_TRUE(ProgressBar(progress, 80).starts_with("[########################] 10/10"));
  EXPECT_EQ(ProgressBar(progress, 30).size(), 30u);
}

TEST(BatchProgress, TheEndHasItsCounts) {
  const Progress end{
      .n_rows = 12, .n_done = 12, .n_failed = 2, .n_new = 7, .elapsed = Duration::Seconds(64)};
  const Totals totals{.n_prompt = 100, .n_cached = 64, .n_completion = 30};
  EXPECT_EQ(EndText(end, totals),
            "12 rows: 10 answered, 2 with errors; 5 of all were there before\n"
            "100 tokens in (64 of them cached), 30 out, in 1m04s\n");
  EXPECT_EQ(EndJson(end, totals),
            "{\"rows\":12,\"done\":12,\"failed\":2,\"done_before\":5,\"prompt_tokens\":100,"
            "\"cached_tokens\":64,\"completion_tokens\":30,\"seconds\":64.0}\n");
}

TEST(BatchProgress, DurationsHaveTwoUnits) {
  EXPECT_EQ(DurationText(Duration::Millis(7'900)), "7s");
  EXPECT_EQ(DurationText(Duration::Seconds(723)), "12m03s");
  EXPECT_EQ(DurationText(Duration::Seconds(3 * 3600 + 120)), "3h02m");
  EXPECT_EQ(DurationText(Duration::Seconds(4 * 86'400 + 6 * 3600)), "4d06h");
}

}  // namespace
}  // namespace sluice::batch
