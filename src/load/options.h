// LoadOptions: what `sluice bench serve` can be told. Plain data; Check makes a Plan of it, behind
// which nobody validates.

#pragma once

#include <cstdint>
#include <string>

#include "base/options.h"
#include "base/result.h"
#include "base/time.h"

namespace sluice::load {

enum class Api : uint8_t { kChat, kMessages, kResponses };
enum class ArrivalKind : uint8_t { kPoisson, kConstant };

struct LoadOptions {
  std::string url;
  std::string api_key;
  Api api = Api::kChat;
  std::string model = "deepseek-flash";

  int32_t n_concurrent = 1;
  double rate = 0;  // requests per second; 0: closed loop
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  int32_t max_in_flight = 512;
  int32_t max_backlog = 100'000;
  int64_t n_requests = 0;  // 0: not limited
  Duration duration;       // zero: not limited
  Duration timeout = Duration::Seconds(600);
  int64_t seed = 0;

  int32_t input_tokens = 512;
  int32_t output_tokens = 128;
  double shared_prefix = 0;
  std::string requests_file;
  std::string trace;

  Duration slo_ttft;  // zero: not asked for
  Duration slo_itl;
  bool json = false;

  void Declare(OptionSet& set);
  // kInvalidArgument for values that do not go together.
  Status Check() const;
};

// http://HOST:PORT.
struct Target {
  std::string host;       // without brackets
  std::string port;       // a number
  std::string authority;  // as the header Host has it
};
Result<Target> ParseTarget(std::string_view url);

}  // namespace sluice::load
