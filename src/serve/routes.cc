#include "serve/routes.h"

#include <algorithm>

namespace sluice::serve {
namespace {

// Hosts and SDKs disagree about the prefix; spec http-api.md §1 (paths) wants both.
constexpr Route kRoutes[] = {
    {"GET", "/", Port::kPublic, Access::kAnyone, Handler::kRoot},
    {"GET", "/web/", Port::kPublic, Access::kAnyone, Handler::kPage},
    {"GET", "/v1/models", Port::kPublic, Access::kKey, Handler::kModels},
    {"GET", "/models", Port::kPublic, Access::kKey, Handler::kModels},
    {"GET", "/v1/models/", Port::kPublic, Access::kKey, Handler::kModel},
    {"GET", "/models/", Port::kPublic, Access::kKey, Handler::kModel},
    {"GET", "/anthropic/v1/models", Port::kPublic, Access::kKey, Handler::kModels},
    {"GET", "/anthropic/v1/models/", Port::kPublic, Access::kKey, Handler::kModel},
    {"GET", "/v1/responses/{id}", Port::kPublic, Access::kKey, Handler::kResponse},
    {"GET", "/responses/{id}", Port::kPublic, Access::kKey, Handler::kResponse},
    {"DELETE", "/v1/responses/{id}", Port::kPublic, Access::kKey, Handler::kDeleteResponse},
    {"DELETE", "/responses/{id}", Port::kPublic, Access::kKey, Handler::kDeleteResponse},
    {"POST", "/v1/responses/{id}/cancel", Port::kPublic, Access::kKey, Handler::kCancelResponse},
    {"POST", "/responses/{id}/cancel", Port::kPublic, Access::kKey, Handler::kCancelResponse},
    {"GET", "/v1/responses/{id}/input_items", Port::kPublic, Access::kKey, Handler::kResponseInput},
    {"GET", "/responses/{id}/input_items", Port::kPublic, Access::kKey, Handler::kResponseInput},
    {"GET", "/version", Port::kBoth, Access::kAnyone, Handler::kVersion},
    {"GET", "/health", Port::kBoth, Access::kAnyone, Handler::kHealth},
    {"GET", "/ready", Port::kBoth, Access::kAnyone, Handler::kReady},
    {"GET", "/metrics", Port::kPublic, Access::kKeyOrLoopback, Handler::kMetrics},
    {"GET", "/metrics", Port::kAdmin, Access::kAnyone, Handler::kMetrics},
    {"GET", "/admin/requests", Port::kAdmin, Access::kAnyone, Handler::kRequests},
    {"GET", "/admin/limits", Port::kAdmin, Access::kAnyone, Handler::kLimits},
    {"POST", "/admin/drain", Port::kAdmin, Access::kAnyone, Handler::kDrain},
    {"POST", "/admin/reload", Port::kAdmin, Access::kAnyone, Handler::kReload},
};
constexpr Route kGenerateRoute = {"POST", "", Port::kPublic, Access::kKey, Handler::kGenerate};
constexpr Route kInquiryRoute = {"POST", "", Port::kPublic, Access::kKey, Handler::kInquiry};

// `rest`: what stands in the place of a name, if the path has one.
bool Serves(const Route& route, std::string_view path, Port port, std::string_view& rest) {
  constexpr std::string_view kName = "{id}";
  if ((static_cast<int>(route.port) & static_cast<int>(port)) == 0) return false;
  if (size_t at = route.path.find(kName); at != std::string_view::npos) {
    const std::string_view before = route.path.substr(0, at);
    const std::string_view behind = route.path.substr(at + kName.size());
    if (path.size() <= before.size() + behind.size() || !path.starts_with(before) ||
        !path.ends_with(behind))
      return false;
    rest = path.substr(at, path.size() - before.size() - behind.size());
    return rest.find('/') == std::string_view::npos;
  }
  const bool is_prefix = route.path.size() > 1 && route.path.ends_with('/');
  if (!is_prefix) return path == route.path;
  if (!path.starts_with(route.path) || path.size() == route.path.size()) return false;
  rest = path.substr(route.path.size());
  return true;
}

bool Holds(std::span<const char* const> paths, std::string_view path) {
  return std::ranges::find(paths, path) != paths.end();
}

// A path of the codec's: a dialect's or an inquiry's. `route` null: neither.
RouteMatch CodecPath(std::string_view path) {
  RouteMatch match;
  for (const codec::Dialect& dialect : codec::Dialects()) {
    if (!Holds(dialect.paths, path)) continue;
    match.route = &kGenerateRoute;
    match.dialect = &dialect;
  }
  for (const codec::Inquiry& inquiry : codec::Inquiries()) {
    if (!Holds(inquiry.paths, path)) continue;
    match.route = &kInquiryRoute;
    match.dialect = &codec::DialectOf(inquiry.api);
    match.inquiry = &inquiry;
  }
  return match;
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

RouteMatch FindRoute(std::string_view method, std::string_view path, Port port) {
  RouteMatch match;
  if (port == Port::kPublic) match = CodecPath(path);
  if (match.route != nullptr) {
    match.allow = "POST, OPTIONS";
    if (method != "POST") match.route = nullptr;
    return match;
  }
  for (const Route& route : kRoutes) {
    std::string_view rest;
    if (!Serves(route, path, port, rest)) continue;
    const bool is_get = route.method == "GET";
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += is_get ? "GET, HEAD" : route.method;
    if (method == route.method || (is_get && method == "HEAD")) match.route = &route;
    match.rest = rest;
  }
  if (!match.allow.empty()) match.allow += ", OPTIONS";
  return match;
}

}  // namespace sluice::serve
