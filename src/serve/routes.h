// The route table: every path the server answers, on which port, and whether it needs a key. Pure.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "codec/dialect.h"
#include "codec/inquiry.h"

namespace sluice::serve {

enum class Port : uint8_t { kPublic = 1, kAdmin = 2, kBoth = 3 };

enum class Access : uint8_t {
  kAnyone,
  kKey,            // a listed key, if there are any
  kKeyOrLoopback,  // or a peer on this machine
};

enum class Handler : uint8_t {
  kGenerate,  // RouteMatch::dialect
  kInquiry,   // RouteMatch::inquiry, with the dialect of its errors
  kRoot,
  kPage,  // a file of the web page: RouteMatch::rest
  kModels,
  kModel,
  kResponse,  // the stored one
  kDeleteResponse,
  kCancelResponse,
  kResponseInput,
  kVersion,
  kHealth,
  kReady,
  kMetrics,
  kRequests,
  kLimits,
  kDrain,
  kReload,
};

struct Route {
  std::string_view method;
  // Ending in '/': everything below it; with `{id}`: one segment in its place. Either is
  // RouteMatch::rest.
  std::string_view path;
  Port port;
  Access access;
  Handler handler;
};
std::span<const Route> Routes();

struct RouteMatch {
  const Route* route = nullptr;             // null: see `allow`
  const codec::Dialect* dialect = nullptr;  // kGenerate, kInquiry
  const codec::Inquiry* inquiry = nullptr;  // kInquiry
  std::string_view rest;                    // what stands in the place of a name
  std::string allow;                        // methods of this path; empty: no such path
};

// HEAD is answered like GET. `port` is kPublic or kAdmin.
RouteMatch FindRoute(std::string_view method, std::string_view path, Port port);

}  // namespace sluice::serve
