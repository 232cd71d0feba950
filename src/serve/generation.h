// Generation: one request that asks for tokens, from its body to the last byte of the answer:
// prepare (hop 2, on the prep pool), submit (hop 3), loop over token events, time and disconnect,
// encode (hop 10).
//
// n choices are n requests to the service, each with its own queue: they are cancelled and held
// back one by one. Owned by the net thread; lives inside Connection::ServeOne.

#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/trace.h"
#include "codec/answer.h"
#include "serve/accounts.h"
#include "serve/connection.h"
#include "serve/sse.h"
#include "wire/event_queue.h"

namespace sluice::serve {

class Generation {
 public:
  Generation(Connection& connection,
             HttpRequest& request,
             const codec::Dialect& dialect,
             Account& account);
  ~Generation();
  Generation(const Generation&) = delete;

  // False: the connection cannot go on.
  Async<bool> Run();

  // For /admin/requests.
  struct Snapshot {
    std::string_view request_id;
    std::string_view tenant;
    std::string_view api;
    Duration age;
    int32_t n_choices;
    wire::Usage usage;
    bool stream;
  };
  Snapshot Look(Time now) const;

 private:
  enum class ChoiceState : uint8_t {
    kRunning,
    kStopped,  // a stop string was found and the request cancelled; its end tells the usage
    kEnded,    // the terminal event was popped: nothing more will come
  };
  struct Choice {
    RequestId id;
    std::unique_ptr<wire::EventQueue> queue;
    ChoiceState state = ChoiceState::kRunning;
  };

  Status Admit();
  Async<Status> Prepare();
  void CountHistory() const;
  Status SubmitAll();
  Async<bool> Answer();
  Status DrainEvents(std::string& out);
  void TellPrompt(std::string& out);
  Status Take(Choice& choice, int32_t index, std::string& out);
  void CountTokens();
  void Note(codec::Finish finish);
  Status HoldAnswer();
  bool IsAnswered() const;
  bool Disconnected();
  Headers AnswerHeaders() const;
  Async<bool> WaitForNews(Status& end);
  Async<bool> SendHeartbeat();
  Async<bool> Flush(bool is_last);
  Async<bool> Begin();
  Async<bool> Complete();
  Async<bool> EndWith(Status end);
  Async<bool> AwaitEnds();
  void CancelAll();
  void Settle();
  void LogTrace();

  Connection& connection_;
  Signal& wake_;  // of the connection
  Net& net_;
  HttpRequest& request_;
  const codec::Dialect& dialect_;
  Account& account_;
  std::list<Generation*>::iterator self_;
  Time started_;  // the whole request read
  Time sent_at_;  // last time anything went to the client
  Time first_token_;
  Time last_event_;  // with tokens
  Time drained_at_;  // when events were last looked for
  Time usage_due_;   // when the ends of stopped choices are no longer waited for
  std::optional<codec::Prepared> prepared_;
  std::optional<codec::Answer> answer_;
  std::vector<Choice> choices_;
  wire::PromptProgress told_;         // to the client
  size_t next_choice_ = 0;            // whose events are taken first: choices take turns
  std::optional<BodyFrames> frames_;  // set once the head of a body of unknown length was sent
  int64_t n_held_bytes_ = 0;          // of net_.held_bytes
  int32_t status_ = 200;              // of the response
  wire::RequestClass class_;
  metrics::Outcome outcome_ = metrics::Outcome::kStop;
  bool admitted_ = false;
  bool has_token_ = false;
  RequestTrace trace_;
  wire::Work work_;  // of all choices
};

}  // namespace sluice::serve
