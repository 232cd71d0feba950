#include "serve/net.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "serve/connection.h"

namespace sluice::serve {
namespace {

// Large enough that a body of megabytes arrives in few reads, small enough to stay in cache.
constexpr size_t kScratchBytes = 64 * 1024;

// How long the last words to a client may take that does not read.
constexpr Duration kStopWriteTime = Duration::Seconds(1);

// How late a stored response may go.
constexpr Duration kExpiryPeriod = Duration::Seconds(1);

Bell BellOf(Net* net) {
  return {[](void* context) {
            Net* rung = static_cast<Net*>(context);
            boost::asio::post(rung->io, [rung] { rung->TakeReady(); });
          },
          net};
}

}  // namespace

Net::Net(const ServeOptions& given_options, const Server::Parts& given_parts)
    : options(given_options),
      parts(given_parts),
      started(parts.env.clock.Wall()),
      opened(parts.env.clock.Now()),
      ready(BellOf(this)),
      responses({.n_bytes = given_options.max_stored_bytes,
                 .n_responses = given_options.max_stored_responses,
                 .age = given_options.stored_response_age}),
      turns(given_options.turn_memory_bytes),
      scratch(kScratchBytes) {
  for (std::string& host : options.allowed_hosts) {
    std::transform(host.begin(), host.end(), host.begin(),
                   [](unsigned char c) { return std::tolower(c); });
  }
  responses.Expire(opened);  // tells it the time before anything is kept
  boot_id = fmt::format("{:016x}", parts.env.entropy.Next());
}

Net::~Net() = default;

const std::string& Net::Date() {
  int64_t now_s = parts.env.clock.Wall().whole_seconds();
  if (now_s != date_s_) {
    date_s_ = now_s;
    date_ =
        fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(static_cast<std::time_t>(now_s)));
  }
  return date_;
}

codec::PrepareContext Net::ContextFor(const Account& account) {
  codec::PrepareContext context = parts.prepare;
  context.responses = &responses;
  if (options.turn_memory_bytes > 0) context.turns = &turns;
  context.key = account.key;
  context.request_class = account.request_class;
  return context;
}

bool Net::EngineAlive() const {
  wire::LoadReport load = parts.service.Load();
  if (load.n_waiting + load.n_running == 0) return true;
  return Now() - std::max(load.last_step, opened) < options.wedged_after;
}

Status Net::LoadKeys() {
  if (options.api_keys_file.empty()) return accounts.Load(options.api_key, std::nullopt);
  SLUICE_TRY(keys_modified, parts.env.fs.ModifiedAt(options.api_keys_file));
  SLUICE_TRY(std::string file,
             parts.env.fs.ReadWhole(options.api_keys_file, limits::kMaxKeyFileBytes));
  return accounts.Load(options.api_key, file);
}

void Net::BeginDrain() {
  if (draining) return;
  draining = true;
  Log(LogLevel::kInfo, "draining",
      {{"requests", generations.size()}, {"connections", connections.size()}});
  for (auto it = connections.begin(); it != connections.end();) {
    Connection& connection = **it++;  // waking may remove it
    if (connection.is_idle()) connection.Wake();
  }
}

void Net::BeginStop() {
  if (stopping) return;  // the time for last words has begun
  draining = true;
  stopping = true;
  last_write_at = Now() + kStopWriteTime;
  for (auto it = connections.begin(); it != connections.end();) {
    Connection& connection = **it++;
    connection.Wake();
  }
}

void Net::Sweep() {
  Time now = Now();
  for (auto it = connections.begin(); it != connections.end();) {
    Connection& connection = **it++;
    if (connection.wake_at() <= now) connection.Wake();
  }
  if (now < next_expiry_) return;
  next_expiry_ = now + kExpiryPeriod;
  responses.Expire(now);
  const codec::responses::ResponseStore::Load load = responses.load();
  metrics::Set(metrics::kStoredResponses, load.n_responses);
  metrics::Set(metrics::kStoredResponseBytes, load.n_bytes);
  metrics::Set(metrics::kTurnMemoryBytes, turns.n_bytes());
}

void Net::TakeReady() {
  ready.TakeAll([](ReadyList::Node& node) { static_cast<Connection&>(node).Wake(); });
}

}  // namespace sluice::serve
