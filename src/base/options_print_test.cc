#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/options_sample.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(OptionsPrint, SecretsAreNeverPrinted) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--api-key", "hunter2"}).ok());
  EXPECT_EQ(s.key, "hunter2");
  for (const std::string& text :
       {s.set.Help(), s.set.PrintConfig(), s.set.MarkdownTables(), s.Line("api-key").value}) {
    EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  }
  EXPECT_THAT(s.set.PrintConfig(), HasSubstr("\n# api-key = \"***\"  # flag --api-key\n"));
}

TEST(OptionsPrint, PrintedConfigReadsBackToTheSameValues) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--host", "a\"b\\c # \xF0\x9F\x99\x82", "--port", "-1", "--max-body",
                       "1500B", "--idle-timeout", "1500ms", "--color", "blue", "--model-alias",
                       "x, y", "--model-alias", "\"", "--strict"})
                  .ok());
  const std::string printed = s.set.PrintConfig();
  OptionSample again;
  const Status status = again.File(printed);
  ASSERT_TRUE(status.ok()) << status.ToString() << printed;
  EXPECT_EQ(again.host, s.host);
  EXPECT_EQ(again.port, -1);
  EXPECT_EQ(again.body, 1500);
  EXPECT_EQ(again.idle, Duration::Millis(1500));
  EXPECT_EQ(again.color, Color::kBlue);
  EXPECT_EQ(again.aliases, s.aliases);
  EXPECT_TRUE(again.strict);
  EXPECT_THAT(printed, Not(HasSubstr("print-config")));
}

TEST(OptionsPrint, PrintedConfigExplainsEachOptionAndNamesItsOrigin) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--port", "9000"}).ok());
  ASSERT_TRUE(s.File("\ncontext = 7").ok());
  const std::string printed = s.set.PrintConfig();
  EXPECT_THAT(printed, HasSubstr("# Network\n"));
  EXPECT_THAT(
      printed,
      HasSubstr("# Port of the API. [default 8000; -1 to 65535]\nport = 9000  # flag --port\n"));
  EXPECT_THAT(
      printed,
      HasSubstr("# Context. [default 1048576 tokens; at least 1]\ncontext = 7  # sluice.toml:2\n"));
  EXPECT_THAT(printed, HasSubstr("# Key of clients.\n# api-key = \"\"  # default\n"));
}

TEST(OptionsPrint, AFileNameCannotBreakThePrintedConfig) {
  OptionSample s;
  ASSERT_TRUE(s.set.ReadFile("port = 1", "a\nhost = \"evil\"").ok());
  OptionSample again;
  ASSERT_TRUE(again.File(s.set.PrintConfig()).ok());
  EXPECT_EQ(again.host, "127.0.0.1");
}

TEST(OptionsPrint, HelpNamesEveryOptionOnceInLinesOfAHundredColumns) {
  OptionSample s;
  const std::string help = s.set.Help();
  for (const OptionLine& line : s.set.Lines()) {
    const std::string flag = "  --" + std::string(line.name) + " ";
    EXPECT_NE(help.find(flag), std::string::npos) << line.name;
    EXPECT_EQ(help.find(flag), help.rfind(flag)) << line.name;
  }
  EXPECT_THAT(
      help,
      HasSubstr("  --port N                    Port of the API. [default 8000; -1 to 65535]\n"));
  EXPECT_THAT(help, HasSubstr("  --print-config              Print and leave.\n"));
  EXPECT_THAT(help, HasSubstr("[default 48MiB; 1KiB to 1GiB]"));
  for (size_t at = 0; at < help.size();) {
    const size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 100u);
    at = end + 1;
  }
}

TEST(OptionsPrint, LongHelpIsWrappedBehindTheFlags) {
  OptionSet set;
  std::string value;
  set.Add(
      "a-flag-whose-name-is-very-long", &value,
      {.help = "Of seventy columns the first line takes all that fit, the second the remainder."});
  const std::string indent(30, ' ');
  EXPECT_EQ(set.Help(),
            "  --a-flag-whose-name-is-very-long TEXT\n" + indent +
                "Of seventy columns the first line takes all that fit, the second the\n" + indent +
                "remainder.\n");
}

TEST(OptionsPrint, TablesHaveOneRowPerOptionThatAFileOrEnvironmentCanSet) {
  OptionSample s;
  const std::string tables = s.set.MarkdownTables();
  EXPECT_THAT(
      tables,
      StartsWith("### Network\n\n| option | default | allowed | meaning |\n|---|---|---|---|\n"
                 "| `host` | `127.0.0.1` |  | Address to listen on. |\n"));
  EXPECT_THAT(tables, HasSubstr("\n\n### Rest\n\n"));
  EXPECT_THAT(tables, HasSubstr("| `context` | `1048576` tokens | at least 1 | Context. |\n"));
  EXPECT_THAT(tables, HasSubstr("| `config` |"));
  EXPECT_THAT(tables, Not(HasSubstr("print-config")));
}

TEST(OptionsPrint, LimitsAreMarkedWithNumberAndUnit) {
  OptionSample s;
  std::vector<std::string> limits;
  for (const OptionLine& line : s.set.Lines()) {
    if (line.is_limit)
      limits.push_back(std::string(line.name) + " " + std::to_string(line.number) + " " +
                       std::string(line.unit));
  }
  EXPECT_THAT(limits, ElementsAre("context 1048576 tokens", "max-body 50331648 bytes"));
}

}  // namespace
}  // namespace sluice
