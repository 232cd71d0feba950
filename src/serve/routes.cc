#include "serve/routes.h"

#include <algorithm>

namespace sluice::serve {
namespace {

// Hosts and SDKs disagree about the prefix; spec http-api.md §1 (paths) wants both.
constexpr Route kRoutes[] = {
    {"GET", "/", Port::kPublic, Access::kAnyone, Handler::kRoot},
    {"GET", "/v1/models", Port::kPublic, Access::kKey, Handler::kModels},
    {"GET", "/models", Port::kPublic, Access::kKey, Handler::kModels},
    {"GET", "/v1/models/", Port::kPublic, Access::kKey, Handler::kModel},
    {"GET", "/models/", Port::kPublic, Access::kKey, Handler::kModel},
    {"GET", "/anthropic/v1/models", Port::kPublic, Access::kKey, Handler::kModels},
    {"GET", "/anthropic/v1/models/", Port::kPublic, Access::kKey, Handler::kModel},
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
constexpr Route kCountRoute = {"POST", "", Port::kPublic, Access::kKey, Handler::kCountTokens};

bool Serves(const Route& route, std::string_view path, Port port) {
  if ((static_cast<int>(route.port) & static_cast<int>(port)) == 0) return false;
  bool is_prefix = route.path.size() > 1 && route.path.ends_with('/');
  return is_prefix ? path.starts_with(route.path) && path.size() > route.path.size()
                   : path == route.path;
}

struct DialectRoute {
  const codec::Dialect* dialect = nullptr;
  const Route* route = nullptr;
};

DialectRoute DialectAt(std::string_view path) {
  for (const codec::Dialect& dialect : codec::Dialects()) {
    if (std::ranges::find(dialect.paths, path) != dialect.paths.end())
      return {&dialect, &kGenerateRoute};
    if (std::ranges::find(dialect.count_paths, path) != dialect.count_paths.end())
      return {&dialect, &kCountRoute};
  }
  return {};
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

RouteMatch FindRoute(std::string_view method, std::string_view path, Port port) {
  RouteMatch match;
  if (DialectRoute at = DialectAt(path); at.dialect != nullptr && port == Port::kPublic) {
    match.allow = "POST, OPTIONS";
    if (method == "POST") match.route = at.route;
    match.dialect = at.dialect;
    return match;
  }
  for (const Route& route : kRoutes) {
    if (!Serves(route, path, port)) continue;
    bool is_get = route.method == "GET";
    match.allow = is_get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    if (method == route.method || (is_get && method == "HEAD")) match.route = &route;
    if (route.path.ends_with('/') && route.path.size() > 1)
      match.rest = path.substr(route.path.size());
    break;
  }
  return match;
}

}  // namespace sluice::serve
