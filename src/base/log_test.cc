#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/metrics.h"

namespace sluice {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class LogToFile : public testing::Test {
 protected:
  void SetUp() override { std::remove(path_.c_str()); }
  void TearDown() override {
    CloseLog();
    std::remove(path_.c_str());
  }
  void Start(LogFormat format, LogLevel level = LogLevel::kInfo) {
    ASSERT_TRUE(InitLog({.level = level, .format = format, .file = path_}).ok());
  }
  std::vector<std::string> Written() {
    FlushLog();
    std::ifstream in(path_);
    return LinesOf(std::string(std::istreambuf_iterator<char>(in), {}));
  }

  const std::string path_ = testing::TempDir() + "sluice_log_test.log";
};

// "2026-11-29T16:00:00.123Z " in front of every text line.
constexpr size_t kTimeBytes = 25;

TEST_F(LogToFile, TextLinesAreASentenceWithATail) {
  Start(LogFormat::kText);
  Log(LogLevel::kInfo, "listening",
      {{"port", 8000}, {"host", "127.0.0.1"}, {"took", Duration::Micros(1250)}});
  Log(LogLevel::kWarn, "no key", {{"share", 0.25}});
  std::vector<std::string> lines = Written();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].substr(kTimeBytes), "info  listening port=8000 host=127.0.0.1 took=1.250ms");
  EXPECT_EQ(lines[1].substr(kTimeBytes), "warn  no key share=0.25");
  EXPECT_EQ(lines[0][10], 'T');
  EXPECT_EQ(lines[0][23], 'Z');
}

TEST_F(LogToFile, JsonLinesAreOneObjectEach) {
  Start(LogFormat::kJson);
  Log(LogLevel::kError, "say \"when\"",
      {{"n", -3}, {"text", "a b"}, {"took", Duration::Millis(2)}, {"x", 0.5}});
  std::vector<std::string> lines = Written();
  ASSERT_EQ(lines.size(), 1u);
  nlohmann::json line = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "say \"when\"");
  EXPECT_EQ(line["n"], -3);
  EXPECT_EQ(line["text"], "a b");
  EXPECT_EQ(line["took_ms"], 2.0);
  EXPECT_EQ(line["x"], 0.5);
  EXPECT_EQ(line["time"].get<std::string>().size(), kTimeBytes - 1);
}

TEST_F(LogToFile, NoValueCanForgeALineOrAField) {
  Start(LogFormat::kText);
  const std::string hostile =
      "x\n2026-11-29T16:00:00.123Z error forged\r\x1b[31m\x7f\xC2\x9B"
      "1m\u2028 a=\"1\"\xFF";
  Log(LogLevel::kInfo, "client", {{"agent", hostile}, {"after", 1}});
  Log(LogLevel::kInfo, "sentence\nforged");
  Log(LogLevel::kInfo, "plain", {{"a", ""}, {"b", "x=y"}, {"c", "käse"}});
  std::vector<std::string> lines = Written();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].substr(kTimeBytes),
            "info  client agent=\"x\\n2026-11-29T16:00:00.123Z error forged"
            "\\r\\u001b[31m\\u007f\\u009b1m\\u2028 "
            "a=\\\"1\\\"\uFFFD\" after=1");
  EXPECT_EQ(lines[1].substr(kTimeBytes), "info  sentence\\nforged");
  EXPECT_EQ(lines[2].substr(kTimeBytes), "info  plain a=\"\" b=\"x=y\" c=\"käse\"");
}

TEST_F(LogToFile, LinesAreBoundedAndStayWellFormed) {
  for (LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    Start(format);
    const std::string long_value(100'000, 'v'), worst(100'000, '\x01'), wide(100'000, '\xE4');
    Log(LogLevel::kInfo, worst, {{"a", worst}, {"b", long_value}, {"c", wide}, {"d", 1}});
    Log(LogLevel::kInfo, "ok", {{"a", long_value}});
  }
  std::vector<std::string> lines = Written();
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines)
    EXPECT_LT(line.size(), static_cast<size_t>(limits::kMaxLogLineBytes));
  EXPECT_TRUE(lines[0].ends_with("cut=2")) << lines[0].substr(lines[0].size() - 40);
  EXPECT_EQ(nlohmann::json::parse(lines[2])["cut"], 2);
  EXPECT_EQ(nlohmann::json::parse(lines[3])["a"].get<std::string>().size(),
            static_cast<size_t>(limits::kMaxLogValueBytes));
}

TEST_F(LogToFile, LowerLevelsAreDropped) {
  Start(LogFormat::kText, LogLevel::kWarn);
  Log(LogLevel::kDebug, "debug");
  Log(LogLevel::kInfo, "info");
  Log(LogLevel::kWarn, "warn");
  Log(LogLevel::kError, "error");
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kError));
  EXPECT_EQ(Written().size(), 2u);
}

TEST_F(LogToFile, EveryLineOfManyThreadsIsWrittenWholeOrCounted) {
  Start(LogFormat::kText);
  constexpr int kThreads = 4, kLines = 5'000;
  int64_t dropped_before = metrics::Cell(metrics::kLogLinesDropped).load();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < kLines; ++i) Log(LogLevel::kInfo, "line", {{"thread", t}, {"i", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> lines = Written();
  int64_t n_dropped = metrics::Cell(metrics::kLogLinesDropped).load() - dropped_before;
  EXPECT_EQ(static_cast<int64_t>(lines.size()) + n_dropped, kThreads * kLines);
  for (const std::string& line : lines)
    ASSERT_TRUE(line.substr(kTimeBytes).starts_with("info  line thread="));
}

TEST_F(LogToFile, AFullDiskIsCountedAndEndsNothing) {
  int64_t dropped_before = metrics::Cell(metrics::kLogLinesDropped).load();
  ASSERT_TRUE(InitLog({.file = "/dev/full"}).ok());
  Log(LogLevel::kInfo, "lost");
  FlushLog();
  EXPECT_EQ(metrics::Cell(metrics::kLogLinesDropped).load(), dropped_before + 1);
}

TEST_F(LogToFile, AFileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  Status status = InitLog({.file = "/dev/null/x.log"});
  EXPECT_EQ(status.message(), "the log file /dev/null/x.log cannot be opened for writing");
}

TEST(Log, BeforeInitLinesGoToStderrAtOnce) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "early", {{"n", 1}});
  std::vector<std::string> lines = LinesOf(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(kTimeBytes), "info  early n=1");
}

}  // namespace
}  // namespace sluice
