#include "serve/options.h"

#include "base/options.h"

namespace sluice::serve {
namespace {

constexpr int64_t kSecond = Duration::Seconds(1).ns;
constexpr int64_t kHour = 3600 * kSecond;

void DeclareNetwork(ServeOptions& o, OptionSet& set) {
  set.Group("Network");
  set.Add("host", &o.host,
          {.help = "Address to listen on; other than loopback only with a key or --allow-no-key.",
           .value = "ADDRESS"});
  set.Add("port", &o.port, {.min = 0, .max = 65535},
          {.help = "Port of the API; 0 takes any free one."});
  set.Add(
      "admin-port", &o.admin_port, {.min = -1, .max = 65535},
      {.help =
           "Port of metrics and administration on loopback; 0 takes any free one, -1 opens none."});
  set.Add("tls-certificate", &o.tls_certificate,
          {.help = "PEM file with the certificate chain; turns TLS on, together with --tls-key.",
           .value = "FILE"});
  set.Add("tls-key", &o.tls_key, {.help = "PEM file with the private key.", .value = "FILE"});
}

void DeclareAccess(ServeOptions& o, OptionSet& set) {
  set.Group("Access");
  set.AddSecret(
      "api-key", &o.api_key,
      {.help = "Key that clients must present; SLUICE_API_KEY keeps it out of the process list.",
       .value = "KEY"});
  set.Add("api-keys-file", &o.api_keys_file,
          {.help = "File of keys with their tenants and limits; SIGHUP reads it again.",
           .value = "FILE"});
  set.Add("allow-no-key", &o.allow_no_key,
          {.help = "Serve an address that others can reach to everybody, without any key."});
  set.Add("allowed-host", &o.allowed_hosts,
          {.help = "Further name that clients may put into the Host header; once for each name.",
           .value = "NAME"});
}

void DeclareBehaviour(ServeOptions& o, OptionSet& set) {
  set.Group("Requests");
  set.Add("strict", &o.strict,
          {.help = "Refuse unknown request fields, which are otherwise named in a header. Messages "
                   "always names them."});
  set.Add("token-endpoints", &o.token_endpoints,
          {.help = "Answer /tokenize, /detokenize and /render below each API path, which cost the "
                   "processor time of a prompt and no tokens; off, there are no such paths."});
  set.Add(
      "web-page", &o.web_page,
      {.help = "Answer browsers at / with a page to talk to the model and to look at the engine; "
               "off, there is no page and no /web/."});
  set.Add("trace", &o.trace, {.help = "Log where the time of each request went, hop by hop."});
  set.Add("sse-coalesce", &o.sse_coalesce, {.help = "Let queued stream events share one write."});
  set.Add("heartbeat", &o.heartbeat, {.min = kSecond / 10, .max = kHour},
          {.help = "How long nothing may be sent of an answer until a sign of life is."});
  set.Add(
      "wedged-after", &o.wedged_after, {.min = kSecond / 10, .max = kHour},
      {.help = "An engine that has work and makes no step for this long is reported unhealthy."});
}

void DeclareLimits(ServeOptions& o, OptionSet& set) {
  set.Group("Limits");
  set.Add("max-connections", &o.max_connections, {.min = 1, .max = 1'000'000},
          {.help = "Open connections; further ones are refused.",
           .unit = "connections",
           .is_limit = true});
  set.Add("max-requests", &o.max_requests, {.min = 1, .max = 1'000'000},
          {.help = "Requests in flight; further ones are answered 503.",
           .unit = "requests",
           .is_limit = true});
  set.AddBytes(
      "max-header", &o.max_header_bytes, {.min = kKiB, .max = kMiB},
      {.help = "Request line and headers of one request; more is answered 431.", .is_limit = true});
  set.AddBytes("max-body", &o.max_body_bytes, {.min = kKiB, .max = kGiB},
               {.help = "Body of one request, as sent and decompressed; more is answered 413.",
                .is_limit = true});
  set.AddBytes(
      "max-buffered", &o.max_buffered_bytes, {.min = kMiB, .max = 1024 * kGiB},
      {.help = "Bodies and prompts of all requests in flight; beyond it all but small requests are "
               "answered 503.",
       .is_limit = true});
  set.Add("max-stored-responses", &o.max_stored_responses, {.min = 0, .max = 10'000'000},
          {.help = "Responses kept for previous_response_id, item_reference and their own paths; "
                   "the oldest make room. 0: none.",
           .unit = "responses",
           .is_limit = true});
  set.AddBytes("max-stored-bytes", &o.max_stored_bytes, {.min = 0, .max = 1024 * kGiB},
               {.help = "Memory of the responses kept.", .is_limit = true});
  set.AddBytes(
      "turn-memory", &o.turn_memory_bytes, {.min = 0, .max = 1024 * kGiB},
      {.help = "Memory of sampled tokens, which stand in the prompt again when a client "
               "sends the turn back; as much again while answers run. 0B: none; below 4KiB nothing "
               "fits.",
       .is_limit = true});
}

void DeclareTimes(ServeOptions& o, OptionSet& set) {
  set.Group("Times");
  const OptionRange range = {.min = kSecond / 100, .max = 24 * kHour};
  set.Add(
      "header-timeout", &o.header_timeout, range,
      {.help = "From the first byte of a request to the end of its headers.", .is_limit = true});
  set.Add("body-timeout", &o.body_timeout, range,
          {.help = "Beyond header-timeout, for each started MiB of the body, from its first byte.",
           .is_limit = true});
  set.Add("idle-timeout", &o.idle_timeout, range,
          {.help = "A kept-alive connection without a request is closed after this.",
           .is_limit = true});
  set.Add("write-timeout", &o.write_timeout, range,
          {.help = "A client that takes no byte for this long is disconnected.", .is_limit = true});
  set.Add("stored-response-age", &o.stored_response_age, {.min = kSecond, .max = 720 * kHour},
          {.help = "How long a response is kept at most.", .is_limit = true});
  set.Add("request-timeout", &o.request_timeout, range,
          {.help = "From accepting a request to its last token; then it ends with an error.",
           .is_limit = true});
  set.Add(
      "drain-timeout", &o.drain_timeout, {.min = 0, .max = 24 * kHour},
      {.help = "After SIGTERM, how long running requests may take to finish.", .is_limit = true});
}

}  // namespace

bool IsLoopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

void ServeOptions::Declare(OptionSet& set) {
  DeclareNetwork(*this, set);
  DeclareAccess(*this, set);
  DeclareBehaviour(*this, set);
  DeclareLimits(*this, set);
  DeclareTimes(*this, set);
}

}  // namespace sluice::serve
