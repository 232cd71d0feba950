#include "load/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/limits.h"

namespace sluice::load {
namespace {

constexpr std::array<std::string_view, 3> kApis = {"chat", "messages", "responses"};
constexpr std::array<std::string_view, 2> kArrivals = {"poisson", "constant"};

constexpr int64_t kDay = 24 * Duration::Seconds(3'600).ns;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A port without its value is 80.
Result<std::string> ParsePort(std::string_view text) {
  if (text.empty()) return std::string("80");
  const bool is_number = text.size() <= 5 && std::all_of(text.begin(), text.end(), IsDigit);
  if (!is_number || std::stoi(std::string(text)) < 1 || std::stoi(std::string(text)) > 65'535) {
    return Status::Invalid(fmt::format("url: {} is no port", text));
  }
  return std::string(text);
}

}  // namespace

// Whoever reads them reads flags, and of the environment the key only; reach is left as it is, so
// that the help has defaults and ranges.
void LoadOptions::Declare(OptionSet& set) {
  set.Group("Target");
  set.Add("url", &url, {.help = "Server, http://HOST:PORT.", .value = "URL"});
  set.AddSecret("api-key", &api_key, {.help = "Key that is sent along."});
  set.AddChoice("api", &api, kApis, {.help = "API that is spoken."});
  set.Add("model", &model, {.help = "Model that is asked for.", .value = "NAME"});

  set.Group("Load");
  set.Add("concurrency", &n_concurrent, {.min = 1, .max = limits::kMaxLoadConnections},
          {.help = "Closed loop: requests in flight; the next is sent when one has ended."});
  set.Add("rate", &rate, NumberRange{.min = 0, .max = 1e6},
          {.help = "Open loop: requests per second, whatever the server does; latencies count from "
                   "when a request should have been sent. 0: closed loop."});
  set.AddChoice("arrivals", &arrivals, kArrivals,
                {.help = "Open loop: how requests are spread in time."});
  set.Add("max-in-flight", &max_in_flight, {.min = 1, .max = limits::kMaxLoadConnections},
          {.help = "Open loop: connections; what is due beyond waits, and its latency counts."});
  set.Add("max-backlog", &max_backlog, {.min = 0, .max = limits::kMaxLoadBacklog},
          {.help = "Open loop: requests that may wait so; more are not sent, and counted."});
  set.Add("requests", &n_requests, {.min = 0, .max = limits::kMaxLoadRequests},
          {.help = "Requests, or conversations of a trace; 0: until --duration is over, without it "
                   "each line of a file once, or 100."});
  set.Add("duration", &duration, {.min = 0, .max = kDay},
          {.help = "No new request after this time; 0: no end."});
  set.Add("timeout", &timeout, {.min = Duration::Millis(1).ns, .max = kDay},
          {.help = "When an answer that has not ended is given up."});
  set.Add("seed", &seed, {.min = 0},
          {.help = "Of arrivals and prompts. The same one gives the same prompts, which the server "
                   "may still have in its cache."});

  set.Group("Requests");
  set.Add("input-tokens", &input_tokens, {.min = 1, .max = limits::kMaxLoadInputTokens},
          {.help = "Length of synthetic prompts, as common English words; what the server counted "
                   "is reported."});
  set.Add("output-tokens", &output_tokens, {.min = 1, .max = limits::kMaxLoadOutputTokens},
          {.help = "Length of the answers to them: limit and, where the API has one, minimum."});
  set.Add("shared-prefix", &shared_prefix, NumberRange{.min = 0, .max = 1},
          {.help = "Part of a synthetic prompt that all have in common."});
  set.Add("requests-file", &requests_file,
          {.help = "JSONL file of request bodies, sent in turn.", .value = "FILE"});
  set.Add("trace", &trace, {.help = "JSONL file of conversations, a line each.", .value = "FILE"});

  set.Group("Report");
  set.Add("slo-ttft", &slo_ttft, {.min = 0, .max = kDay},
          {.help = "Longest time to the first token of a good answer; 0: any."});
  set.Add("slo-itl", &slo_itl, {.min = 0, .max = kDay},
          {.help = "Longest mean gap between events of a good answer; 0: any."});
  set.Add("json", &json, {.help = "Print one JSON object."});
}

Status LoadOptions::Check() const {
  if (url.empty()) return Status::Invalid("--url http://HOST:PORT is wanted");
  SLUICE_TRY(ParseTarget(url).status());
  if (!requests_file.empty() && !trace.empty()) {
    return Status::Invalid("only one of --requests-file and --trace may be given");
  }
  if (rate > 0 && n_concurrent != 1) {
    return Status::Invalid(
        "only one of --rate (open loop) and --concurrency (closed loop) may be given; --rate is "
        "bounded by --max-in-flight");
  }
  return Status::Ok();
}

Result<Target> ParseTarget(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) {
    return Status::Invalid("url: only plain HTTP is spoken, http://HOST:PORT");
  }
  if (!url.starts_with(kScheme)) {
    return Status::Invalid(fmt::format("url: {} is not http://HOST:PORT", url));
  }
  std::string_view rest = url.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  Target target;
  std::string_view port;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return Status::Invalid("url: [ without ]");
    target.host = rest.substr(1, end - 1);
    port = rest.substr(end + 1);
  } else {
    target.host = rest.substr(0, rest.find(':'));
    port = rest.substr(target.host.size());
  }
  const bool is_plain =
      !target.host.empty() && target.host.find_first_of("/?#@ \t\r\n") == std::string::npos;
  if (!is_plain || (!port.empty() && !port.starts_with(':'))) {
    return Status::Invalid(fmt::format("url: {} is not http://HOST:PORT, without a path", url));
  }
  SLUICE_TRY(target.port, ParsePort(port.empty() ? port : port.substr(1)));
  target.authority = rest;
  return target;
}

}  // namespace sluice::load
