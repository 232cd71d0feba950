#include "batch/runner.h"

#include <gtest/gtest.h>

#include "batch/runner_test_impl.h"

namespace sluice::batch {
namespace {

constexpr std::string_view kScript =
    "{\"when\":{\"last\":\"[boom]\"},\"times\":\"always\",\"out\":\"a\",\"fail_after\":1}\n"
    "{\"when\":{\"last\":\"[hang]\"},\"times\":\"always\",\"out\":\"a\",\"hang_after\":1}\n"
    "{\"times\":\"always\",\"out\":\"Hm.</think>Hello, world.\",\"pace_ms\":10}\n";

std::string Rows(int n) {
  std::string rows;
  for (int i = 0; i < n; ++i) rows += ChatRow(fmt::format("r{}", i), fmt::format("number {}", i));
  return rows;
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(BatchRunner, EveryRowGetsOneLineWithTheServersAnswer) {
  BatchInVirtualTime batch(Rows(20), kScript);
  batch.Run();
  EXPECT_EQ(batch.Lines().size(), 20u);
  for (int i = 0; i < 20; ++i) {
    const std::string line = batch.LineOf(fmt::format("r{}", i));
    EXPECT_TRUE(Has(line, "\"status_code\":200")) << line;
    EXPECT_TRUE(Has(line, "\"content\":\"Hello, world.\",\"reasoning_content\":\"Hm.\"")) << line;
    EXPECT_TRUE(Has(line, "\"object\":\"chat.completion\"")) << line;
  }
  EXPECT_EQ(batch.totals.n_done, 20);
  EXPECT_EQ(batch.totals.n_failed, 0);
  EXPECT_EQ(batch.totals.n_completion, 20 * 17);
  EXPECT_EQ(batch.totals.n_generated, 20 * 17);
  EXPECT_GT(batch.totals.n_prompt, 0);
}

TEST(BatchRunner, RunsManyAtOnceAndNoMoreThanAllowed) {
  BatchInVirtualTime batch(Rows(30), kScript);
  batch.Run();
  EXPECT_EQ(batch.watched->n_held_max, 6);
  batch.n_requests_max = 1;
  batch.Run();
  EXPECT_EQ(batch.watched->n_held_max, 1);
}

TEST(BatchRunner, RowsThatBeginAlikeFollowOneAnother) {
  const std::string a(100, 'a');
  const std::string b(100, 'b');
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    rows += ChatRow(fmt::format("{}", i), fmt::format("{}{}", i % 2 == 0 ? a : b, i),
                    ",\"thinking\":{\"type\":\"disabled\"}");
  }
  BatchInVirtualTime batch(rows, kScript);
  batch.Run();
  ASSERT_EQ(batch.watched->prompts.size(), 8u);
  int n_changes = 0;
  for (size_t i = 1; i < 8; ++i) {
    n_changes += batch.watched->prompts[i][50] != batch.watched->prompts[i - 1][50] ? 1 : 0;
  }
  EXPECT_EQ(n_changes, 1);
}

TEST(BatchRunner, ARowThatFailsIsALineAndEndsNothing) {
  BatchInVirtualTime batch(
      "not json\n\n" + ChatRow("ok", "hi") + ChatRow("ok", "again") + ChatRow("boom", "[boom]") +
          ChatRow("bad", "hi", ",\"temperature\":7") + ChatRow("big", std::string(20'000, 'x')) +
          ChatRow("two", "[boom]", ",\"n\":2") + ChatRow("last", "hi"),
      kScript);
  batch.Run();
  EXPECT_EQ(batch.Lines().size(), 8u);
  EXPECT_EQ(batch.totals.n_failed, 6);
  EXPECT_TRUE(Has(batch.file.text,
                  "\"custom_id\":null,\"response\":null,\"error\":{\"code\":"
                  "\"invalid_json_line\""));
  EXPECT_TRUE(Has(batch.file.text, "\"error\":{\"code\":\"duplicate_custom_id\""));
  EXPECT_TRUE(Has(batch.LineOf("boom"), "\"status_code\":500"));
  EXPECT_TRUE(Has(batch.LineOf("two"), "\"status_code\":500"));
  EXPECT_FALSE(Has(batch.LineOf("boom"), "script")) << "the text of an internal error got out";
  EXPECT_TRUE(Has(batch.LineOf("bad"), "\"status_code\":400"));
  EXPECT_TRUE(Has(batch.LineOf("bad"), "temperature"));
  EXPECT_TRUE(Has(batch.LineOf("big"), "\"status_code\":413"));
  EXPECT_TRUE(Has(batch.LineOf("last"), "\"status_code\":200"));
}

TEST(BatchRunner, ARowThatHangsEndsAtItsDeadline) {
  BatchInVirtualTime batch(ChatRow("a", "[hang]") + ChatRow("b", "hi"), kScript);
  batch.Run();
  EXPECT_TRUE(Has(batch.LineOf("a"), "\"status_code\":504"));
  EXPECT_TRUE(Has(batch.LineOf("b"), "\"status_code\":200"));
}

TEST(BatchRunner, AStreamIsAnsweredWholeAndSaysSo) {
  BatchInVirtualTime batch(
      ChatRow("a", "hi", ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"), kScript);
  batch.Run();
  EXPECT_TRUE(Has(batch.LineOf("a"), "\"object\":\"chat.completion\""));
  EXPECT_TRUE(Has(batch.LineOf("a"), "\"ignored_fields\":[\"stream\"]"));
}

TEST(BatchRunner, StopStringsAndChoicesAreThoseOfTheServer) {
  BatchInVirtualTime batch(
      ChatRow("stop", "hi", ",\"stop\":[\", w\"]") + ChatRow("n", "hi", ",\"n\":16"), kScript);
  batch.Run();
  EXPECT_TRUE(Has(batch.LineOf("stop"), "\"content\":\"Hello\"")) << batch.LineOf("stop");
  EXPECT_TRUE(Has(batch.LineOf("n"), "\"index\":15")) << batch.LineOf("n");
}

TEST(BatchRunner, SeedsAreTheRequestsOrTheRows) {
  BatchInVirtualTime batch(ChatRow("a", "hi", ",\"seed\":7") + ChatRow("b", "hi", ",\"n\":2"),
                           kScript);
  batch.Run();
  const std::vector<uint64_t> first = batch.watched->seeds;
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(std::ranges::count(first, 7u), 1);
  EXPECT_EQ(std::set<uint64_t>(first.begin(), first.end()).size(), 3u);
  batch.Run();
  EXPECT_EQ(batch.watched->seeds, first);
}

TEST(BatchRunner, ARowIsTriedAgainWhenTheServiceIsFull) {
  BatchInVirtualTime batch(Rows(2), kScript);
  batch.n_refusals = 4;
  batch.Run();
  EXPECT_EQ(batch.totals.n_failed, 0);
  BatchInVirtualTime never(Rows(1), kScript);
  never.n_refusals = 5;
  never.Run();
  EXPECT_TRUE(Has(never.LineOf("r0"), "\"status_code\":503"));
}

// However a run was interrupted, and wherever its last line is torn: the rest gives the same lines.
TEST(BatchRunner, AResumedRunGivesTheLinesOfAnUninterruptedOne) {
  const std::string rows = Rows(12) + "not json\n" + ChatRow("r3", "again");
  BatchInVirtualTime whole(rows, kScript);
  whole.Run();
  const std::vector<std::string> all = whole.Lines();
  for (size_t n = 0; n < whole.file.text.size(); n += 37) {
    BatchInVirtualTime rest(rows, kScript);
    rest.Run(whole.file.text.substr(0, n));
    const std::vector<std::string> lines = rest.Lines();
    const auto without_time = [](std::string line) {
      const size_t at = line.find("\"created\":");
      return at == line.npos ? line : line.erase(at, 20);
    };
    std::multiset<std::string> expected, got;
    for (const std::string& line : all) expected.insert(without_time(line));
    for (const std::string& line : lines) got.insert(without_time(line));
    ASSERT_EQ(got, expected) << n;
  }
}

TEST(BatchRunner, LinesAreOnTheDiskAfterSomeSecondsAndAtTheEnd) {
  BatchInVirtualTime batch(Rows(300), kScript);
  const Time begin = batch.clock.Now();
  batch.Run();
  const double spent_s = (batch.clock.Now() - begin).seconds();
  EXPECT_GT(spent_s, 10);
  EXPECT_EQ(batch.file.n_synced, batch.file.text.size());
  EXPECT_GE(batch.file.n_syncs, static_cast<int>(spent_s / kSyncPeriod.seconds()));
  EXPECT_LE(batch.file.n_syncs, static_cast<int>(spent_s / kSyncPeriod.seconds()) + 2);
}

TEST(BatchRunner, AFullDiskEndsTheRunAndWhatIsThereCanBeGoneOnWith) {
  BatchInVirtualTime batch(Rows(20), kScript);
  batch.file.n_bytes_max = 3'000;
  batch.Run();
  EXPECT_FALSE(batch.failure.ok());
  EXPECT_GT(batch.totals.n_done, 0);
  EXPECT_LT(batch.totals.n_done, 20);
  const std::string text = batch.file.text;
  batch.file.n_bytes_max = INT64_MAX;
  batch.Run(text);
  EXPECT_EQ(batch.Lines().size(), 20u);
}

TEST(BatchRunner, AnInputWithoutRowsIsDone) {
  BatchInVirtualTime batch("\n\n", kScript);
  batch.Run();
  EXPECT_EQ(batch.file.text, "");
}

}  // namespace
}  // namespace sluice::batch
