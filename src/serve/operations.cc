#include "serve/operations.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cmath>
#include <optional>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/log.h"
#include "env/proc_text.h"
#include "serve/generation.h"
#include "serve/page.h"
#include "serve/stored_responses.h"

namespace sluice::serve {
namespace {

// Why a service is not alive.
constexpr std::string_view kNoSteps = "the engine has work and does not step";

void WriteModel(JsonWriter& w,
                const codec::ModelCard& card,
                std::string_view name,
                int64_t created) {
  w.Object();
  w.Key("id").String(name);
  w.Key("object").String("model");
  w.Key("created").Int(created);
  w.Key("owned_by").String(card.owner);
  // Several agents read their limits from here, each under a name of its own (spec clients.md
  // §2.6).
  w.Key("context_length").Int(card.n_context);
  w.Key("max_model_len").Int(card.n_context);
  w.Key("max_output_tokens").Int(std::min(card.n_output_max, card.n_context));
  w.EndObject();
}

// The same as Anthropic's clients expect it.
void WriteAnthropicModel(JsonWriter& w,
                         const codec::ModelCard& card,
                         std::string_view name,
                         int64_t created) {
  w.Object();
  w.Key("type").String("model");
  w.Key("id").String(name);
  w.Key("display_name").String(name);
  w.Key("created_at")
      .String(fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(created))));
  w.Key("lifecycle").String("active");
  w.Key("max_input_tokens").Int(card.n_context);
  w.Key("max_tokens").Int(std::min(card.n_output_max, card.n_context));
  w.Key("context_length").Int(card.n_context);
  w.Key("max_output_tokens").Int(std::min(card.n_output_max, card.n_context));
  w.EndObject();
}

std::vector<std::string_view> NamesOf(const codec::ModelCard& card) {
  std::vector<std::string_view> names{card.name};
  names.insert(names.end(), card.aliases.begin(), card.aliases.end());
  return names;
}

// All of them on one page.
Response AnthropicModels(const Net& net) {
  const codec::ModelCard& card = net.parts.prepare.model;
  const std::vector<std::string_view> names = NamesOf(card);
  Response response;
  JsonWriter w(response.body);
  w.Object();
  w.Key("data").Array();
  for (std::string_view name : names)
    WriteAnthropicModel(w, card, name, net.started.whole_seconds());
  w.EndArray();
  w.Key("has_more").Bool(false);
  w.Key("first_id").String(names.front());
  w.Key("last_id").String(names.back());
  w.EndObject();
  return response;
}

Response Models(const Net& net) {
  const codec::ModelCard& card = net.parts.prepare.model;
  Response response;
  JsonWriter w(response.body);
  w.Object();
  w.Key("object").String("list");
  w.Key("data").Array();
  for (std::string_view name : NamesOf(card))
    WriteModel(w, card, name, net.started.whole_seconds());
  w.EndArray();
  w.EndObject();
  return response;
}

struct ModelParams {
  std::string_view name;
  bool is_anthropic;
};

Response Model(const Net& net, const ModelParams& params, std::string_view request_id) {
  const codec::ModelCard& card = net.parts.prepare.model;
  std::vector<std::string_view> names = NamesOf(card);
  // Listed or not: what a request may say can be looked up.
  names.insert(names.end(), card.other_names.begin(), card.other_names.end());
  if (std::ranges::find(names, params.name) == names.end()) {
    Status status(ErrorCode::kModelNotFound,
                  "no model of that name is served; GET /v1/models lists those that are");
    status.set_param("model");
    return ErrorResponse(status, ErrorDialect(params.is_anthropic), request_id);
  }
  Response response;
  JsonWriter w(response.body);
  auto write = params.is_anthropic ? &WriteAnthropicModel : &WriteModel;
  write(w, card, params.name, net.started.whole_seconds());
  return response;
}

Response Version(const Net& net) {
  Response response;
  JsonWriter w(response.body);
  w.Object();
  w.Key("version").String(net.parts.version);
  w.EndObject();
  return response;
}

// A browser gets the page, everybody else what programs ask for.
Response Root(const Net& net, const RequestHead& head) {
  const bool is_page = net.options.web_page && head.accepts_html;
  Response response = is_page ? PageResponse(kFirstPage, head, {}) : Version(net);
  if (net.options.web_page) response.headers.emplace_back("Vary", "Accept");
  return response;
}

Response Metrics(const Net& net) {
  const Result<std::string> status =
      net.parts.env.fs.ReadWhole("/proc/self/status", kMaxProcTextBytes);
  if (status) metrics::Set(metrics::kResidentBytes, KilobyteField(*status, "VmRSS").value_or(0));
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics::Expose();
  return response;
}

// {"status": ..., "reason": ...}
Response State(bool good, std::string_view reason) {
  Response response;
  response.status = good ? 200 : 503;
  JsonWriter w(response.body);
  w.Object();
  w.Key("status").String(good ? "ok" : "unavailable");
  if (!good) w.Key("reason").String(reason);
  w.EndObject();
  return response;
}

// Times and rates as a person reads them: one digit behind the point.
double Rounded(double value) { return std::round(value * 10) / 10; }

// State of a service whose model is not in memory yet, and how far that is.
Response Loading(const wire::LoadProgress& loading) {
  Response response;
  response.status = 503;
  const std::optional<Duration> left = loading.left();
  JsonWriter w(response.body);
  w.Object();
  w.Key("status").String("unavailable");
  w.Key("reason").String("loading");
  w.Key("loading").Object();
  w.Key("percent").Double(Rounded(loading.percent()));
  w.Key("done_bytes").Int(loading.done_bytes);
  w.Key("total_bytes").Int(loading.total_bytes);
  w.Key("gb_per_s").Double(std::round(loading.bytes_per_s() / 1e7) / 100);
  w.Key("elapsed_s").Double(Rounded(loading.elapsed.seconds()));
  w.Key("eta_s");
  left ? w.Double(Rounded(left->seconds())) : w.Null();
  w.Key("file").String(loading.file);
  w.EndObject();
  w.EndObject();
  return response;
}

// Whether new requests are taken, or why not.
Response Ready(const Net& net) {
  if (net.draining) return State(false, "draining");
  const wire::LoadReport load = net.parts.service.Load();
  if (load.loading) return Loading(*load.loading);
  return State(net.EngineAlive(), kNoSteps);
}

Response Requests(const Net& net) {
  Response response;
  JsonWriter w(response.body);
  Time now = net.Now();
  w.Object();
  w.Key("requests").Array();
  for (const Generation* generation : net.generations) {
    Generation::Snapshot look = generation->Look(now);
    w.Object();
    w.Key("request_id").String(look.request_id);
    w.Key("tenant").String(look.tenant);
    w.Key("api").String(look.api);
    w.Key("age_s").Double(look.age.seconds());
    w.Key("stream").Bool(look.stream);
    w.Key("n").Int(look.n_choices);
    w.Key("prompt_tokens").Int(look.usage.n_prompt);
    w.Key("completion_tokens").Int(look.usage.n_completion);
    w.EndObject();
  }
  w.EndArray();
  w.EndObject();
  return response;
}

Response Limits() {
  Response response;
  JsonWriter w(response.body);
  w.Object();
  for (const limits::Limit& limit : limits::All()) w.Key(limit.name).Int(limit.value);
  w.EndObject();
  return response;
}

metrics::Route RouteLabelOf(codec::Inquiry::Kind kind) {
  switch (kind) {
    case codec::Inquiry::Kind::kCountTokens:
      return metrics::Route::kCountTokens;
    case codec::Inquiry::Kind::kTokenize:
      return metrics::Route::kTokenize;
    case codec::Inquiry::Kind::kDetokenize:
      return metrics::Route::kDetokenize;
    case codec::Inquiry::Kind::kRender:
      return metrics::Route::kRender;
  }
  return metrics::Route::kOther;
}

metrics::Route RouteLabelOf(codec::Api api) {
  switch (api) {
    case codec::Api::kChat:
      return metrics::Route::kChat;
    case codec::Api::kMessages:
      return metrics::Route::kMessages;
    case codec::Api::kCompletions:
      return metrics::Route::kCompletions;
    case codec::Api::kResponses:
      return metrics::Route::kResponses;
  }
  return metrics::Route::kOther;
}

}  // namespace

Response HandleOperation(Net& net, const Operation& operation) {
  const auto& [match, head, request_id, account] = operation;
  switch (match.route->handler) {
    case Handler::kRoot:
      return Root(net, head);
    case Handler::kPage:
      return PageResponse(match.rest, head, request_id);
    case Handler::kVersion:
      return Version(net);
    case Handler::kModels:
      return head.is_anthropic ? AnthropicModels(net) : Models(net);
    case Handler::kModel:
      return Model(net, {.name = match.rest, .is_anthropic = head.is_anthropic}, request_id);
    case Handler::kResponse:
    case Handler::kDeleteResponse:
    case Handler::kCancelResponse:
    case Handler::kResponseInput:
      return HandleStoredResponse(net, operation);
    case Handler::kHealth:
      return State(net.EngineAlive(), kNoSteps);
    case Handler::kReady:
      return Ready(net);
    case Handler::kMetrics:
      return Metrics(net);
    case Handler::kRequests:
      return Requests(net);
    case Handler::kLimits:
      return Limits();
    case Handler::kDrain:
      // Not from here: waking others inside one's own wake-up could destroy whom the caller looks
      // at next.
      boost::asio::post(net.io, [&net] { net.BeginDrain(); });
      return State(true, "");
    case Handler::kReload: {
      Status status = net.LoadKeys();
      if (!status.ok()) return ErrorResponse(status, codec::Dialects().front(), request_id);
      return State(true, "");
    }
    case Handler::kGenerate:
    case Handler::kInquiry:
      break;
  }
  SLUICE_CHECK(!"a route without a handler");
  return {};
}

metrics::Route RouteLabel(const RouteMatch& match) {
  if (match.inquiry != nullptr) return RouteLabelOf(match.inquiry->kind);
  if (match.dialect != nullptr) return RouteLabelOf(match.dialect->api);
  if (match.route == nullptr) return metrics::Route::kOther;
  switch (match.route->handler) {
    case Handler::kRoot:
      return metrics::Route::kRoot;
    case Handler::kPage:
      return metrics::Route::kPage;
    case Handler::kModels:
    case Handler::kModel:
      return metrics::Route::kModels;
    case Handler::kResponse:
    case Handler::kDeleteResponse:
    case Handler::kCancelResponse:
    case Handler::kResponseInput:
      return metrics::Route::kResponses;
    case Handler::kVersion:
      return metrics::Route::kVersion;
    case Handler::kHealth:
      return metrics::Route::kHealth;
    case Handler::kReady:
      return metrics::Route::kReady;
    case Handler::kMetrics:
      return metrics::Route::kMetrics;
    default:
      return metrics::Route::kAdmin;
  }
}

}  // namespace sluice::serve
