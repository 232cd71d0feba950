#include "load/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "load/lane.h"

namespace sluice::load {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kScratchBytes = 64 * 1024;
constexpr Duration kShowPeriod = Duration::Millis(500);
constexpr int64_t kSyntheticRequests = 100;

Result<std::vector<asio::ip::tcp::endpoint>> LookUp(asio::io_context& io, const Target& target) {
  error_code ec;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(target.host, target.port, ec);
  if (ec) return Status::Invalid(fmt::format("url: {}: {}", target.host, ec.message()));
  std::vector<asio::ip::tcp::endpoint> endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  return endpoints;
}

// Without any end: each line of a file once.
int64_t JobsOf(const LoadOptions& options, const Workload& workload) {
  if (options.n_requests > 0 || options.duration.ns > 0) return options.n_requests;
  return workload.n_lines() > 0 ? workload.n_lines() : kSyntheticRequests;
}

}  // namespace

struct Runner::State {
  explicit State(const Params& params)
      : site{.options = params.options, .workload = params.workload, .clock = params.clock},
        show(params.show),
        pace(site.io),
        showing(site.io) {}

  void Begin();
  void Pace();
  void ArmPace();
  void AddLane();
  void ShowNow();
  void ArmShow();
  bool over() const;
  int64_t lanes_max() const {
    return site.options.rate > 0 ? site.options.max_in_flight : site.options.n_concurrent;
  }

  Site site;
  void (*const show)(const Progress& progress);
  asio::steady_timer pace;
  asio::steady_timer showing;
  std::vector<std::unique_ptr<Lane>> lanes;
  Time start;
};

Runner::Runner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Runner::~Runner() = default;

Result<std::unique_ptr<Runner>> Runner::Open(const Params& params) {
  auto state = std::make_unique<State>(params);
  SLUICE_TRY(state->site.target, ParseTarget(params.options.url));
  SLUICE_TRY(state->site.endpoints, LookUp(state->site.io, state->site.target));
  state->site.scratch.resize(kScratchBytes);
  return std::unique_ptr<Runner>(new Runner(std::move(state)));  // tidy: allow, private constructor
}

void Runner::State::AddLane() {
  lanes.push_back(std::make_unique<Lane>(site));
  lanes.back()->Run();
}

void Runner::State::Begin() {
  const LoadOptions& options = site.options;
  start = site.clock.Now();
  site.schedule.emplace(Schedule::Params{.rate = options.rate,
                                         .arrivals = options.arrivals,
                                         .seed = static_cast<uint64_t>(options.seed),
                                         .n_jobs = JobsOf(options, site.workload),
                                         .duration = options.duration,
                                         .max_backlog = options.max_backlog},
                        start);
  if (show != nullptr) ArmShow();
  if (options.rate > 0) return ArmPace();
  for (int64_t i = 0; i < lanes_max() && !site.schedule->over(site.clock.Now()); ++i) AddLane();
}

void Runner::State::ArmPace() {
  const std::optional<Time> next = site.schedule->next_due();
  if (!next || site.stopping) {
    // Idle lanes find that nothing more will come.
    for (Lane* lane : std::exchange(site.idle, {})) lane->Wake();
    return;
  }
  const Duration wait = std::max(Duration(), *next - site.clock.Now());
  pace.expires_after(std::chrono::nanoseconds(wait.ns));
  pace.async_wait([this](error_code ec) {
    if (!ec) Pace();
  });
}

// Moves what is due to lanes: to those that are idle, then to new ones, else it waits.
void Runner::State::Pace() {
  const auto n_idle = std::ssize(site.idle);
  site.schedule->Advance(site.clock.Now(), n_idle + lanes_max() - std::ssize(lanes));
  while (site.schedule->n_waiting() > 0 && !site.stopping) {
    if (!site.idle.empty()) {
      Lane* lane = site.idle.back();
      site.idle.pop_back();
      lane->Wake();
    } else if (std::ssize(lanes) < lanes_max()) {
      AddLane();
    } else {
      break;
    }
  }
  ArmPace();
}

void Runner::State::ArmShow() {
  showing.expires_after(std::chrono::nanoseconds(kShowPeriod.ns));
  showing.async_wait([this](error_code ec) {
    if (ec || over()) return;
    ShowNow();
    ArmShow();
  });
}

void Runner::State::ShowNow() {
  const Results& r = site.results;
  show({.elapsed = site.clock.Now() - start,
        .n_sent = r.n_sent + site.n_in_flight,
        .n_done = r.n_done(),
        .n_refused = r.n_ended[static_cast<size_t>(EndKind::kRefused)],
        .n_failed = r.n_failed(),
        .n_in_flight = site.n_in_flight,
        .n_waiting = site.schedule->n_waiting()});
}

bool Runner::State::over() const {
  return (site.stopping || site.schedule->over(site.clock.Now())) && site.n_in_flight == 0;
}

Results Runner::Run() {
  State& s = *state_;
  s.Begin();
  while (!s.over() && s.site.io.run_one() > 0) {
  }
  s.showing.cancel();
  s.site.results.elapsed = s.site.clock.Now() - s.start;
  // What is left are connections that close.
  s.site.io.restart();
  s.site.io.run();
  s.site.results.was_stopped = s.site.stopping;
  s.site.results.n_dropped = s.site.schedule->n_dropped();
  s.site.results.n_waiting_max = s.site.schedule->n_waiting_max();
  s.site.results.n_unstarted = s.site.schedule->n_waiting();
  for (const auto& lane : s.lanes) SLUICE_CHECK(lane->has_ended());
  return std::move(s.site.results);
}

void Runner::Stop() {
  asio::post(state_->site.io, [state = state_.get()] {
    state->site.stopping = true;
    state->pace.cancel();
    state->showing.cancel();
    state->site.idle.clear();
    for (const auto& lane : state->lanes) lane->Wake();
  });
}

}  // namespace sluice::load
