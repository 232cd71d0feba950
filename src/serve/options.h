// ServeOptions: everything the HTTP server can be told. Declared once; see base/options.h.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"

namespace sluice {
class OptionSet;
}

namespace sluice::serve {

// Whether `host`, a name or address without port, means this machine alone.
bool IsLoopback(std::string_view host);

struct ServeOptions {
  std::string host = "127.0.0.1";
  int32_t port = 8000;        // 0: any free port
  int32_t admin_port = 8001;  // loopback only; 0: any free port, -1: none
  std::string api_key;
  std::string api_keys_file;
  bool allow_no_key = false;
  std::vector<std::string> allowed_hosts;
  std::string tls_certificate;
  std::string tls_key;
  bool strict = false;
  bool trace = false;
  bool sse_coalesce = true;
  bool token_endpoints = true;
  bool web_page = true;

  int32_t max_connections = 4096;
  int32_t max_requests = 1024;
  int64_t max_header_bytes = 64 * kKiB;
  int64_t max_body_bytes = 48 * kMiB;
  int64_t max_buffered_bytes = 512 * kMiB;
  int32_t max_stored_responses = 10'000;
  int64_t max_stored_bytes = 256 * kMiB;
  int64_t turn_memory_bytes = 64 * kMiB;  // 0: none

  Duration header_timeout = Duration::Seconds(10);
  Duration body_timeout = Duration::Seconds(60);
  Duration idle_timeout = Duration::Seconds(75);
  Duration write_timeout = Duration::Seconds(60);
  Duration heartbeat = Duration::Seconds(10);
  Duration stored_response_age = Duration::Seconds(24 * 3600);
  Duration request_timeout = Duration::Seconds(3600);
  Duration drain_timeout = Duration::Seconds(30);
  Duration wedged_after = Duration::Seconds(30);

  void Declare(OptionSet& set);
};

}  // namespace sluice::serve
