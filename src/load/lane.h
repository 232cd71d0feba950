// Lane: one connection of a load, and the coroutine that sends requests over it one after the
// other. Owned by the thread that runs the load, like all of Site.

#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "env/clock.h"
#include "load/options.h"
#include "load/results.h"
#include "load/schedule.h"
#include "load/workload.h"
#include "serve/stream.h"
#include "serve/task.h"

namespace sluice::load {

class Lane;

// What the lanes of one run share.
struct Site {
  // Constant.
  const LoadOptions& options;
  const Workload& workload;
  const Clock& clock;
  Target target;
  std::vector<boost::asio::ip::tcp::endpoint> endpoints;

  boost::asio::io_context io{1};
  std::optional<Schedule> schedule;  // from the start of the run on
  Results results;
  std::vector<Lane*> idle;  // nothing is due for them
  int64_t n_in_flight = 0;
  bool stopping = false;
  std::vector<char> scratch;  // one read
};

class Lane {
 public:
  explicit Lane(Site& site);
  Lane(const Lane&) = delete;

  // Takes jobs until there will be none.
  serve::Detached Run();
  // The schedule or the site has news. It is no longer in Site::idle.
  void Wake() {
    is_idle_ = false;
    wake_.Raise();
  }
  bool has_ended() const { return has_ended_; }

 private:
  struct Exchange;

  serve::Async<bool> Converse(Job job);
  // False: the run stops.
  serve::Async<bool> SleepUntil(Time at);
  serve::Async<Outcome> Ask(const Workload::Request& request, Time due, AnswerTurn* turn);
  serve::Async<bool> Connect(Exchange& exchange);
  serve::Async<bool> Transfer(Exchange& exchange);
  serve::Async<bool> Disconnect();
  serve::Async<bool> Yield();

  bool MayGoOn(Exchange& exchange) const;
  void Take(Exchange& exchange);
  void TakeEvents(Exchange& exchange, Time now);
  void Finish(Exchange& exchange) const;
  std::string RequestBytes(const std::string& body) const;
  void Arm(Time at);

  Site& site_;
  serve::Signal wake_;
  boost::asio::steady_timer timer_;
  std::optional<serve::TcpSocket> socket_;  // while connecting
  std::unique_ptr<serve::Stream> stream_;   // null: no connection
  bool has_no_server_ = false;              // the last connection was refused
  bool is_idle_ = false;                    // it stands in Site::idle
  bool has_ended_ = false;
};

}  // namespace sluice::load
