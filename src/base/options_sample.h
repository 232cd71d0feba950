// OptionSample: one option of every kind, for the tests and the fuzzer of OptionSet.
// Thread-compatible.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/options.h"

namespace sluice {

enum class Color : uint8_t { kRed, kGreen, kBlue };
inline constexpr std::string_view kColors[] = {"red", "green", "blue"};

struct OptionSample {
  std::string host = "127.0.0.1";
  std::string key;
  std::string config;
  bool strict = false;
  bool coalesce = true;
  bool print = false;
  int32_t port = 8000;
  int64_t context = 1 << 20;
  double share = 0.5;
  int64_t body = 48 * kMiB;
  Duration idle = Duration::Seconds(75);
  Color color = Color::kGreen;
  std::vector<std::string> aliases = {"one", "two"};
  OptionSet set;

  OptionSample() {
    set.Group("Network");
    set.Add("host", &host, {.help = "Address to listen on.", .value = "ADDRESS"});
    set.Add("port", &port, {.min = -1, .max = 65535}, {.help = "Port of the API."});
    set.AddSecret("api-key", &key, {.help = "Key of clients."});
    set.Group("Rest");
    set.Add("strict", &strict, {.help = "Refuse unknown fields."});
    set.Add("coalesce", &coalesce, {.help = "Share writes."});
    set.Add("context", &context, {.min = 1},
            {.help = "Context.", .unit = "tokens", .is_limit = true});
    set.Add("share", &share, NumberRange{.min = 0, .max = 1}, {.help = "Part of it."});
    set.AddBytes("max-body", &body, {.min = kKiB, .max = kGiB},
                 {.help = "One body.", .is_limit = true});
    set.Add("idle-timeout", &idle, {.min = 1, .max = Duration::Seconds(7200).ns},
            {.help = "Idle time."});
    set.AddChoice("color", &color, kColors, {.help = "Color of the log."});
    set.Add("model-alias", &aliases, {.help = "Other names."});
    set.Add("config", &config,
            {.help = "This file.", .value = "FILE", .reach = OptionReach::kFlagOrEnvironment});
    set.Add("print-config", &print, {.help = "Print and leave.", .reach = OptionReach::kFlagOnly});
  }

  Status Flags(std::vector<std::string> args) { return set.ReadFlags(args); }
  Status File(std::string_view text) { return set.ReadFile(text, "sluice.toml"); }
  OptionLine Line(std::string_view name) {
    for (const OptionLine& line : set.Lines()) {
      if (line.name == name) return line;
    }
    return {};
  }
};

}  // namespace sluice
