#include "app/chat_turn.h"

#include <fmt/format.h>

#include <utility>

#include "app/chat_view.h"
#include "app/command.h"
#include "app/signals.h"
#include "app/wiring.h"
#include "codec/answer.h"
#include "env/posix/event_bell.h"
#include "wire/event_queue.h"

namespace sluice::app {

struct ChatTurns::Parts {
  explicit Parts(const Env& given_env) : env(given_env), ready(news.bell()) {}

  Status Stream(const std::string& body, ChatView& view);
  Status Follow(wire::EventQueue& queue, RequestId id, codec::Answer& answer, ChatView& view);

  const Env env;
  EventBell news;
  ReadyList ready;
  ReadyList::Node node;  // of the turn; like what it rings it outlives the service
  std::unique_ptr<LocalService> local;
  Duration request_timeout;
  uint64_t n_turns = 0;
};

Result<std::unique_ptr<ChatTurns>> ChatTurns::Open(const Env& env, const AppOptions& options) {
  auto parts = std::make_unique<Parts>(env);
  SLUICE_TRY(parts->local, LocalService::Open(env, options, options.serve.max_requests));
  parts->request_timeout = options.serve.request_timeout;
  SLUICE_TRY(parts->local->Start());
  return std::unique_ptr<ChatTurns>(new ChatTurns(std::move(parts)));  // tidy: allow, private
}

ChatTurns::ChatTurns(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ChatTurns::~ChatTurns() = default;

std::string ChatTurns::model_name() const { return parts_->local->context().model.name; }

Result<ChatAnswer> ChatTurns::Run(const ChatHistory& history, bool is_terminal) {
  ChatView view(is_terminal);
  const Time begin = parts_->env.clock.Now();
  const Status status = parts_->Stream(history.ToBody(), view);
  view.Close();
  if (!status.ok()) return status;
  const double spent_s = (parts_->env.clock.Now() - begin).seconds();
  if (is_terminal) {
    Print(Dim(fmt::format("{} tokens in, {} out, {:.1f} tokens/s", view.n_prompt(),
                          view.n_completion(),
                          static_cast<double>(view.n_completion()) / std::max(spent_s, 1e-9))) +
          "\n");
  }
  return view.answer();
}

Status ChatTurns::Parts::Stream(const std::string& body, ChatView& view) {
  const codec::Dialect& dialect = codec::DialectOf(codec::Api::kChat);
  const codec::PrepareContext context = local->context();
  SLUICE_TRY(codec::Prepared prepared, codec::Prepare(dialect, body, context));
  const RequestId id(++n_turns);
  prepared.generate.id = id;
  prepared.generate.deadline = env.clock.Now() + request_timeout;
  const InterruptScope interrupts(news);
  wire::EventQueue queue(ready, node);
  SLUICE_TRY(local->service().Submit(std::move(prepared.generate), queue));
  codec::Answer answer(dialect, context.format, std::move(prepared.answer),
                       {.id = fmt::format("{}", id.value),
                        .created = env.clock.Wall(),
                        .fingerprint = fmt::format("sluice-{}", kVersion),
                        .entropy = env.entropy.Next()});
  const Status end = Follow(queue, id, answer, view);
  // The next turn lists the same node; an old listing would only wake it once too often.
  ready.TakeAll([](ReadyList::Node&) {});
  return end;
}

// Until the terminal event was popped: the service writes to the queue until then.
Status ChatTurns::Parts::Follow(wire::EventQueue& queue,
                                RequestId id,
                                codec::Answer& answer,
                                ChatView& view) {
  bool is_cancelled = false;  // by Ctrl-C
  Status failure;
  for (bool has_ended = false; !has_ended;) {
    ready.TakeAll([](ReadyList::Node&) {});
    std::string out;
    wire::TokenEvent event;
    while (!has_ended && queue.TryPop(event)) {
      has_ended = event.end != nullptr;
      if (is_cancelled) continue;
      const bool is_failed = has_ended && !event.end->status.ok();
      // After the answer is complete its request is cancelled, which is no failure.
      if (is_failed && event.end->status.code() != ErrorCode::kCancelled) {
        failure = event.end->status;
        continue;
      }
      if (answer.OnEvent(0, event, out) == codec::Answer::Next::kCancel) {
        local->service().Cancel(id);
      }
    }
    view.Take(out);
    if (has_ended) break;
    queue.Drained();
    if (!is_cancelled && TakeInterrupt()) {
      is_cancelled = true;
      local->service().Cancel(id);
    }
    news.Wait(Time::Max(), env.clock);
  }
  if (is_cancelled) return {ErrorCode::kCancelled, "the answer was cancelled, and is forgotten"};
  SLUICE_TRY(std::move(failure));
  std::string out;
  answer.Finish(out);
  view.Take(out);
  return Status::Ok();
}

}  // namespace sluice::app
