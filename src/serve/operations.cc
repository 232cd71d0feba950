#include "serve/operations.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/log.h"
#include "serve/generation.h"
#include "serve/stored_responses.h"

namespace sluice::serve {
namespace {

// What /v1/models says the models were made by.
constexpr std::string_view kOwner = "deepseek-ai";

void WriteModel(JsonWriter& w,
                const codec::ModelCard& card,
                std::string_view name,
                int64_t created) {
  w.Object();
  w.Key("id").String(name);
  w.Key("object").String("model");
  w.Key("created").Int(created);
  w.Key("owned_by").String(kOwner);
  // Several agents read their limits from here, each under a name of its own (spec clients.md
  // §2.6).
  w.Key("context_length").Int(card.n_context);
  w.Key("max_model_len").Int(card.n_context);
  w.Key("max_output_tokens").Int(card.n_output_max);
  w.EndObject();
}

std::vector<std::string_view> NamesOf(const codec::ModelCard& card) {
  std::vector<std::string_view> names{card.name};
  names.insert(names.end(), card.aliases.begin(), card.aliases.end());
  return names;
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

Response Model(const Net& net, std::string_view name, std::string_view request_id) {
  const codec::ModelCard& card = net.parts.prepare.model;
  std::vector<std::string_view> names = NamesOf(card);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    Status status(ErrorCode::kModelNotFound,
                  "no model of that name is served; GET /v1/models lists those that are");
    status.set_param("model");
    return ErrorResponse(status, codec::Dialects().front(), request_id);
  }
  Response response;
  JsonWriter w(response.body);
  WriteModel(w, card, name, net.started.whole_seconds());
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

metrics::Route RouteLabelOf(codec::Api api) {
  switch (api) {
    case codec::Api::kChat:
      return metrics::Route::kChat;
    case codec::Api::kResponses:
      return metrics::Route::kResponses;
  }
  return metrics::Route::kOther;
}

}  // namespace

Response HandleOperation(Net& net, const Operation& operation) {
  const auto& [match, query, request_id, account] = operation;
  switch (match.route->handler) {
    case Handler::kRoot:
    case Handler::kVersion:
      return Version(net);
    case Handler::kModels:
      return Models(net);
    case Handler::kModel:
      return Model(net, match.rest, request_id);
    case Handler::kResponse:
    case Handler::kDeleteResponse:
    case Handler::kCancelResponse:
    case Handler::kResponseInput:
      return HandleStoredResponse(net, operation);
    case Handler::kHealth:
      return State(net.EngineAlive(), "the engine has work and does not step");
    case Handler::kReady:
      if (net.draining) return State(false, "draining");
      return State(net.EngineAlive(), "the engine has work and does not step");
    case Handler::kMetrics: {
      Response response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics::Expose();
      return response;
    }
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
      break;
  }
  SLUICE_CHECK(!"a route without a handler");
  return {};
}

metrics::Route RouteLabel(const RouteMatch& match) {
  if (match.dialect != nullptr) return RouteLabelOf(match.dialect->api);
  if (match.route == nullptr) return metrics::Route::kOther;
  switch (match.route->handler) {
    case Handler::kRoot:
      return metrics::Route::kRoot;
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
