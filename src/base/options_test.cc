#include "base/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <iterator>
#include <sstream>

#include "base/limits.h"
#include "base/options_sample.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string Message(const Status& status) { return std::string(status.message()); }

// As a shell splits a line without quotes.
std::vector<std::string> Words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(Options, AnotherDefaultGivesWayToEverySourceAndSaysWhereItComesFrom) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--port", "9000"}).ok());
  s.set.SetDefault("port", "7", "house rules");
  s.set.SetDefault("color", "blue", "house rules");
  EXPECT_EQ(s.port, 9000);
  EXPECT_EQ(s.color, Color::kBlue);
  EXPECT_EQ(s.Line("color").origin, "house rules");
  EXPECT_EQ(s.Line("color").default_text, "green");
  ASSERT_TRUE(s.File("color = \"red\"").ok());
  EXPECT_EQ(s.color, Color::kRed);
}

TEST(Options, FlagsSetEveryKind) {
  OptionSample s;
  const Status status = s.Flags(
      Words("--host ::1 --port=9000 --api-key k1 --strict --no-coalesce --context 5000000000 "
            "--max-body 64KiB --idle-timeout=250ms --color blue --model-alias a --model-alias b,c "
            "--config x.toml --print-config"));
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(s.host, "::1");
  EXPECT_EQ(s.port, 9000);
  EXPECT_EQ(s.key, "k1");
  EXPECT_TRUE(s.strict);
  EXPECT_FALSE(s.coalesce);
  EXPECT_EQ(s.context, 5'000'000'000);
  EXPECT_EQ(s.body, 64 * kKiB);
  EXPECT_EQ(s.idle, Duration::Millis(250));
  EXPECT_EQ(s.color, Color::kBlue);
  EXPECT_THAT(s.aliases, ElementsAre("a", "b,c"));
  EXPECT_EQ(s.config, "x.toml");
  EXPECT_TRUE(s.print);
}

TEST(Options, EnvironmentSetsEveryKindAndIgnoresOtherPrograms) {
  OptionSample s;
  const Status status = s.set.ReadEnvironment({{"SLUICE_HOST", "::1"},
                                               {"SLUICE_PORT", "-1"},
                                               {"SLUICE_API_KEY", "k1"},
                                               {"SLUICE_STRICT", "true"},
                                               {"SLUICE_COALESCE", "false"},
                                               {"SLUICE_CONTEXT", "7"},
                                               {"SLUICE_MAX_BODY", "1GiB"},
                                               {"SLUICE_IDLE_TIMEOUT", "2h"},
                                               {"SLUICE_COLOR", "red"},
                                               {"SLUICE_MODEL_ALIAS", "a,b"},
                                               {"SLUICE_CONFIG", "x.toml"},
                                               {"PATH", "/bin"},
                                               {"SLUICEGATE", "open"}});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(s.host, "::1");
  EXPECT_EQ(s.port, -1);
  EXPECT_EQ(s.key, "k1");
  EXPECT_TRUE(s.strict);
  EXPECT_FALSE(s.coalesce);
  EXPECT_EQ(s.context, 7);
  EXPECT_EQ(s.body, kGiB);
  EXPECT_EQ(s.idle, Duration::Seconds(7200));
  EXPECT_EQ(s.color, Color::kRed);
  EXPECT_THAT(s.aliases, ElementsAre("a", "b"));
  EXPECT_EQ(s.config, "x.toml");
}

TEST(Options, FileSetsEveryKind) {
  OptionSample s;
  const Status status = s.File(R"(# comment
host = "::1"
port = 9000
api-key = 'k1'
strict = true
coalesce = false
context = 7
max-body = "2MiB"
idle-timeout = "3m"
color = "red"
model-alias = ["a", "b,c"]
)");
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(s.host, "::1");
  EXPECT_EQ(s.port, 9000);
  EXPECT_EQ(s.key, "k1");
  EXPECT_TRUE(s.strict);
  EXPECT_FALSE(s.coalesce);
  EXPECT_EQ(s.context, 7);
  EXPECT_EQ(s.body, 2 * kMiB);
  EXPECT_EQ(s.idle, Duration::Seconds(180));
  EXPECT_EQ(s.color, Color::kRed);
  EXPECT_THAT(s.aliases, ElementsAre("a", "b,c"));
}

TEST(Options, StrongerSourcesWinInWhateverOrderTheyAreRead) {
  enum Step { kFlags, kEnv, kFile };
  for (std::vector<Step> order : std::vector<std::vector<Step>>{{kFlags, kEnv, kFile},
                                                                {kFlags, kFile, kEnv},
                                                                {kEnv, kFlags, kFile},
                                                                {kEnv, kFile, kFlags},
                                                                {kFile, kFlags, kEnv},
                                                                {kFile, kEnv, kFlags}}) {
    OptionSample s;
    for (Step step : order) {
      const Status status =
          step == kFlags ? s.Flags({"--port", "1", "--model-alias", "flag"})
          : step == kEnv
              ? s.set.ReadEnvironment(
                    {{"SLUICE_PORT", "2"}, {"SLUICE_HOST", "env"}, {"SLUICE_MODEL_ALIAS", "env"}})
              : s.File("port = 3\nhost = \"file\"\ncontext = 3\nmodel-alias = []\n");
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_EQ(s.port, 1);
    EXPECT_EQ(s.host, "env");
    EXPECT_EQ(s.context, 3);
    EXPECT_EQ(s.color, Color::kGreen);
    EXPECT_THAT(s.aliases, ElementsAre("flag"));
    EXPECT_EQ(s.Line("port").origin, "flag --port");
    EXPECT_EQ(s.Line("host").origin, "environment SLUICE_HOST");
    EXPECT_EQ(s.Line("context").origin, "sluice.toml:3");
    EXPECT_EQ(s.Line("color").origin, "default");
  }
}

TEST(Options, OverriddenValuesAreCheckedToo) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--port", "1"}).ok());
  EXPECT_EQ(
      Message(s.File("port = 70000")),
      "port = 70000 (sluice.toml:1) is not allowed: must be a whole number, from -1 to 65535");
  EXPECT_EQ(s.port, 1);
}

// What a refusal says after "must be ".
constexpr const char* kPort = "a whole number, from -1 to 65535";
constexpr const char* kContext = "a whole number, at least 1";
constexpr const char* kBody =
    "a size with its unit (B, KiB, MiB, GiB), such as \"48MiB\", from 1KiB to 1GiB";
constexpr const char* kIdle =
    "a duration with its unit (ns, us, ms, s, m, h), such as \"75s\", from 1ns to 2h";
constexpr const char* kColor = "one of red, green, blue";
constexpr const char* kBool = "true or false";
constexpr const char* kText = "text in UTF-8 without control characters";
constexpr const char* kSecret = "text in UTF-8, not empty, without control characters";
constexpr const char* kTexts = "a list of texts in UTF-8, none empty, without control characters";

struct Bad {
  const char* name;
  const char* value;  // as given
  const char* shown;
  const char* allowed;
};

std::string Refusal(const Bad& bad, std::string_view where) {
  return fmt::format("{} = {} ({}) is not allowed: must be {}", bad.name, bad.shown, where,
                     bad.allowed);
}

constexpr Bad kBadTexts[] = {
    {"port", "70000", "70000", kPort},
    {"port", "-2", "-2", kPort},
    {"port", "http", "http", kPort},
    {"port", "80x", "80x", kPort},
    {"port", "8.0", "8.0", kPort},
    {"port", "", "\"\"", kPort},
    {"port", "9223372036854775808", "9223372036854775808", kPort},
    {"context", "0", "0", kContext},
    {"share", "1.5", "1.5", "a number, from 0 to 1"},
    {"share", "nan", "nan", "a number, from 0 to 1"},
    {"share", "half", "half", "a number, from 0 to 1"},
    {"max-body", "48", "48", kBody},
    {"max-body", "2GiB", "2GiB", kBody},
    {"max-body", "1023B", "1023B", kBody},
    {"idle-timeout", "10", "10", kIdle},
    {"idle-timeout", "0s", "0s", kIdle},
    {"idle-timeout", "3h", "3h", kIdle},
    {"color", "pink", "pink", kColor},
    {"color", "1", "1", kColor},
    {"host", "a\nb", "a\\nb", kText},
    {"host", "a\xff", "a\xEF\xBF\xBD", kText},
    {"api-key", "hun\nter2", "***", kSecret},
    {"api-key", "", "\"\"", kSecret},
};

TEST(Options, BadFlagsSayNameValueOriginAndWhatIsAllowed) {
  for (const Bad& bad : kBadTexts) {
    OptionSample s;
    const Status status = s.Flags({fmt::format("--{}", bad.name), bad.value});
    EXPECT_EQ(Message(status), Refusal(bad, fmt::format("flag --{}", bad.name)));
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.param(), bad.name);
  }
  OptionSample s;
  EXPECT_EQ(Message(s.Flags({"--strict=yes"})),
            Refusal({"strict", "", "yes", kBool}, "flag --strict"));
  EXPECT_EQ(Message(s.Flags({"--model-alias", ""})),
            Refusal({"model-alias", "", "\"\"", kTexts}, "flag --model-alias"));
}

TEST(Options, BadEnvironmentValuesNameTheVariable) {
  for (const Bad& bad : kBadTexts) {
    std::string variable = "SLUICE_";
    for (const char* c = bad.name; *c != '\0'; ++c) {
      variable += *c == '-' ? '_' : static_cast<char>(std::toupper(*c));
    }
    OptionSample s;
    EXPECT_EQ(Message(s.set.ReadEnvironment({{variable, bad.value}})),
              Refusal(bad, "environment " + variable));
  }
  OptionSample s;
  EXPECT_EQ(Message(s.set.ReadEnvironment({{"SLUICE_STRICT", "1"}})),
            Refusal({"strict", "", "1", kBool}, "environment SLUICE_STRICT"));
  EXPECT_EQ(Message(s.set.ReadEnvironment({{"SLUICE_MODEL_ALIAS", "a,,b"}})),
            Refusal({"model-alias", "", "a,,b", kTexts}, "environment SLUICE_MODEL_ALIAS"));
}

TEST(Options, FileValuesOfAnotherTypeAreRefusedWithTheLine) {
  const Bad cases[] = {
      {"port", "port = \"80\"", "the text 80", kPort},
      {"port", "port = 80.5", "a fraction", kPort},
      {"port", "port = 2000-01-01", "a date or time", kPort},
      {"port", "port = 70000", "70000", kPort},
      {"port", "[port]\na = 1", "a table", kPort},
      {"port", "port.x = 1", "a table", kPort},
      {"strict", "strict = \"true\"", "the text true", kBool},
      {"max-body", "max-body = 48", "48", kBody},
      {"max-body", "max-body = \"48\"", "48", kBody},
      {"idle-timeout", "idle-timeout = 10", "10", kIdle},
      {"color", "color = [\"red\"]", "a list", kColor},
      {"host", "host = true", "true", kText},
      {"host", "host = \"\\u0007\"", "\\u0007", kText},
      {"api-key", "api-key = 12345", "***", kSecret},
      {"model-alias", "model-alias = \"a\"", "the text a", kTexts},
      {"model-alias", "model-alias = [1]", "a list", kTexts},
      {"model-alias", "model-alias = [\"a\", \"\"]", "a,", kTexts},
  };
  for (const Bad& bad : cases) {
    OptionSample s;
    EXPECT_EQ(Message(s.File(std::string("\n") + bad.value)), Refusal(bad, "sluice.toml:2"));
  }
}

TEST(Options, UnknownNamesAreRefusedWithTheNearestKnownOne) {
  OptionSample s;
  EXPECT_EQ(Message(s.Flags({"--prot", "8000"})), "unknown flag --prot; did you mean --port?");
  EXPECT_EQ(Message(s.Flags({"--max-bdy=1MiB"})),
            "unknown flag --max-bdy; did you mean --max-body?");
  EXPECT_EQ(Message(s.Flags({"-p", "1"})), "unknown flag -p; did you mean --port?");
  EXPECT_EQ(Message(s.Flags({"--strict", "serve"})), "unexpected argument serve");
  EXPECT_EQ(Message(s.set.ReadEnvironment({{"SLUICE_MAX_BODDY", "1MiB"}})),
            "unknown environment variable SLUICE_MAX_BODDY; did you mean SLUICE_MAX_BODY?");
  EXPECT_EQ(Message(s.set.ReadEnvironment({{"SLUICE_port", "1"}})),
            "unknown environment variable SLUICE_port; did you mean SLUICE_PORT?");
  EXPECT_EQ(Message(s.File("port = 1\n\nidle-timeot = \"1s\"")),
            "sluice.toml:3: unknown option idle-timeot; did you mean idle-timeout?");
  EXPECT_EQ(Message(s.File("[host-name]")),
            "sluice.toml:1: unknown option host-name; did you mean host?");
}

TEST(Options, ActionsAndTheFileNameAreNotSetByTheFile) {
  OptionSample s;
  EXPECT_THAT(Message(s.File("config = \"other.toml\"")), HasSubstr("unknown option config"));
  EXPECT_THAT(Message(s.File("print-config = true")), HasSubstr("unknown option print-config"));
  EXPECT_THAT(Message(s.set.ReadEnvironment({{"SLUICE_PRINT_CONFIG", "true"}})),
              HasSubstr("unknown environment variable SLUICE_PRINT_CONFIG"));
}

TEST(Options, AFlagGivenTwiceIsRefusedUnlessItIsAList) {
  OptionSample s;
  EXPECT_EQ(Message(s.Flags({"--port", "1", "--port", "2"})), "--port is given 2 times");
  EXPECT_EQ(Message(s.Flags({"--strict", "--no-strict"})), "--strict is given 2 times");
}

TEST(Options, AFlagWithoutItsValueIsRefused) {
  OptionSample s;
  EXPECT_THAT(Message(s.Flags({"--port"})), HasSubstr("--port"));
}

TEST(Options, BoolsTakeAValueAndLeadingDashesBelongToValues) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--strict=true", "--coalesce=false", "--port", "-1", "--host", "-x"}).ok());
  EXPECT_TRUE(s.strict);
  EXPECT_FALSE(s.coalesce);
  EXPECT_EQ(s.port, -1);
  EXPECT_EQ(s.host, "-x");
}

TEST(Options, BracketsInAValueAreText) {
  OptionSample s;
  ASSERT_TRUE(s.Flags({"--host", "[::1]", "--model-alias", "[a,b]"}).ok());
  EXPECT_EQ(s.host, "[::1]");
  EXPECT_THAT(s.aliases, ElementsAre("[a,b]"));
}

TEST(Options, BrokenFilesAreRefusedWithTheLine) {
  OptionSample s;
  EXPECT_THAT(Message(s.File("port = 1\nhost = \n")), StartsWith("sluice.toml:2: not TOML: "));
  EXPECT_THAT(Message(s.File("port = 1\nport = 2\n")), StartsWith("sluice.toml:2: not TOML: "));
  EXPECT_THAT(Message(s.File("host = \"\xff\"")), StartsWith("sluice.toml:1: not TOML: "));
  EXPECT_THAT(Message(s.File("x = " + std::string(10'000, '['))),
              StartsWith("sluice.toml:1: not TOML: "));
}

TEST(Options, FilesAreBounded) {
  OptionSample s;
  const std::string comment = "port = 1\n#";
  const size_t at_limit = static_cast<size_t>(limits::kMaxConfigFileBytes);
  EXPECT_TRUE(s.File(comment + std::string(at_limit - comment.size(), 'x')).ok());
  EXPECT_EQ(Message(s.File(comment + std::string(at_limit - comment.size() + 1, 'x'))),
            "sluice.toml has 1048577 bytes; a config file has at most 1048576");
}

TEST(Options, DeeplyNestedTablesEndInAnError) {
  for (int n_levels : {10'000, 10'001, 400'000}) {
    std::string key = "a";
    for (int i = 0; i < n_levels; ++i) key += ".a";
    OptionSample s;
    EXPECT_FALSE(s.File(key + " = 1").ok());
    EXPECT_FALSE(s.File("[" + key + "]").ok());
  }
  OptionSample s;
  EXPECT_TRUE(s.File("# " + std::string(100'000, '.') + "\nport = 1").ok());
}

TEST(Options, EmptySourcesChangeNothing) {
  OptionSample s;
  EXPECT_TRUE(s.Flags({}).ok());
  EXPECT_TRUE(s.set.ReadEnvironment({}).ok());
  EXPECT_TRUE(s.File("").ok());
  const OptionSample untouched;
  EXPECT_EQ(s.set.PrintConfig(), untouched.set.PrintConfig());
  for (const OptionLine& line : s.set.Lines()) EXPECT_EQ(line.origin, "default");
}

TEST(Options, AnEmptyListOfTheEnvironmentReplacesTheDefault) {
  OptionSample s;
  ASSERT_TRUE(s.set.ReadEnvironment({{"SLUICE_MODEL_ALIAS", ""}}).ok());
  EXPECT_THAT(s.aliases, IsEmpty());
}

TEST(OptionsDeathTest, ANameDeclaredTwiceOrADefaultOutOfRangeIsABug) {
  int32_t number = 5;
  OptionSet set;
  set.Add("number", &number, {.min = 0, .max = 9}, {.help = "A number."});
  EXPECT_DEATH(set.Add("number", &number, {.min = 0, .max = 9}, {.help = "Again."}),
               "CHECK failed");
  EXPECT_DEATH(set.Add("other", &number, {.min = 6, .max = 9}, {.help = "Out of range."}),
               "CHECK failed");
}

TEST(NearestName, PicksTheSmallestEditDistanceAndTheFirstOfEquals) {
  constexpr std::string_view kKnown[] = {"serve", "config", "doctor", "version"};
  EXPECT_EQ(NearestName("srve", kKnown), "serve");
  EXPECT_EQ(NearestName("conifg", kKnown), "config");
  EXPECT_EQ(NearestName("doctro", kKnown), "doctor");
  EXPECT_EQ(NearestName("versoin", kKnown), "version");
  EXPECT_EQ(NearestName("", kKnown), "serve");
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName(std::string(1'000'000, 'v'), kKnown), "serve");
}

}  // namespace
}  // namespace sluice
