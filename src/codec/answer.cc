#include "codec/answer.h"

#include <deque>
#include <vector>

#include "base/check.h"
#include "codec/dialect/encoder.h"
#include "codec/format/output_lexer.h"
#include "codec/format/stop_set.h"
#include "codec/prompt_reader.h"
#include "codec/turn_recorder.h"

namespace sluice::codec {
namespace {

enum class ChoiceState : uint8_t {
  kNew,  // no event yet
  kOpen,
  kStopped,  // a stop string was found; the terminal event is still to come
  // The calls are complete, and so is the answer, unless the terminal event tells that they ended
  // at a limit (golden chat/usage/call-then-length).
  kClosed,
  kDone,
};

struct Choice {
  explicit Choice(const OutputLexer::Params& params) : lexer(params) {}

  OutputLexer lexer;
  std::unique_ptr<PromptReader> prompt;  // null: nothing of it is told
  std::unique_ptr<TurnRecorder> turn;    // null: it is not kept
  ChoiceState state = ChoiceState::kNew;
  codec::Finish finish = codec::Finish::kStop;
  bool ended = false;  // its finish frame was written
  bool told = false;   // the service's own usage has come
  wire::Usage usage;
};

// What the end of a choice means to clients. `at_end`: the service's reason, null if the lexer has
// seen the end by itself.
codec::Finish FinishOf(const OutputLexer& lexer, const wire::EventEnd* at_end) {
  if (lexer.ended() == OutputEnd::kStopString) return codec::Finish::kStopString;
  const bool may_be_cut =
      lexer.ended() == OutputEnd::kNot || lexer.ended() == OutputEnd::kCallsClosed;
  if (may_be_cut && at_end != nullptr && at_end->finish == wire::FinishReason::kLength) {
    return codec::Finish::kLength;
  }
  if (lexer.ended() == OutputEnd::kNot && at_end->finish == wire::FinishReason::kFiltered) {
    return codec::Finish::kContentFilter;
  }
  // Also without a limit: agents run what they can parse of a call unless this says that it was cut
  // (spec clients.md §3, recipe.md §8.2).
  if (lexer.calls_are_cut()) return codec::Finish::kLength;
  return lexer.n_calls() > 0 ? codec::Finish::kToolCalls : codec::Finish::kStop;
}

ChoiceEnd EndOf(const Choice& c) { return {.finish = c.finish, .stop = c.lexer.stop_string()}; }

bool EndsAtLimit(wire::FinishReason finish) {
  return finish == wire::FinishReason::kLength || finish == wire::FinishReason::kFiltered;
}

Encoder MakeEncoder(Api api, const AnswerSpec& spec, const AnswerIdentity& identity) {
  switch (api) {
    case Api::kChat:
      break;
    case Api::kMessages:
      return Encoder(std::in_place_type<messages::Encoder>, spec, identity);
    case Api::kCompletions:
      return Encoder(std::in_place_type<completions::Encoder>, spec, identity);
    case Api::kResponses:
      return Encoder(std::in_place_type<responses::Encoder>, spec, identity);
  }
  return Encoder(std::in_place_type<chat::Encoder>, spec, identity);
}

}  // namespace

struct Answer::State {
  State(const Dialect& dialect, Format format, AnswerSpec s, const AnswerIdentity& identity)
      : spec(std::move(s)),
        end_of_turn(format.ends().front()),
        stops(spec.stops),
        encoder(MakeEncoder(dialect.api, spec, identity)) {
    for (int32_t i = 0; i < spec.n_choices; ++i) {
      choices.emplace_back(OutputLexer::Params{.format = format,
                                               .spec = spec,
                                               .stops = stops,
                                               .entropy = identity.entropy,
                                               .choice = i});
      if (!spec.prompt_scores.prompt.empty()) {
        choices.back().prompt =
            std::make_unique<PromptReader>(format.vocabulary(), spec.prompt_scores);
      }
      if (spec.turn.memory == nullptr) continue;
      choices.back().turn = std::make_unique<TurnRecorder>(spec.turn);
    }
  }

  // `call(e)` on the encoder `e` of the dialect.
  auto Encode(auto call) { return std::visit(call, encoder); }
  void Show(int32_t index, std::span<const OutputEvent> events, std::string& out) {
    TurnRecorder* const turn = choices[static_cast<size_t>(index)].turn.get();
    for (const OutputEvent& event : events) {
      if (turn != nullptr) turn->TakeEvent(event);
      Encode([&](auto& e) { e.OnEvent(index, event, out); });
    }
  }
  // Only APIs that can be asked for it tell anything of a prompt.
  void ShowPrompt(int32_t index, const wire::TokenEvent& event, std::string& out) {
    PromptReader* const prompt = choices[static_cast<size_t>(index)].prompt.get();
    if (prompt == nullptr) return;
    const PromptPiece piece = prompt->Read(event.prompt_logprobs);
    if (piece.tokens.empty()) return;
    Encode([&](auto& e) {
      if constexpr (requires { e.OnPrompt(index, piece, out); }) e.OnPrompt(index, piece, out);
    });
  }
  void KeepTurns();
  void End(int32_t index, codec::Finish finish, std::string& out);

  const AnswerSpec spec;
  const TokenId end_of_turn;
  const StopSet stops;
  Encoder encoder;
  std::deque<Choice> choices;  // a lexer cannot be moved
  int32_t n_running = 0;       // choices without a finish
};

Answer::Answer(const Dialect& dialect, Format format, AnswerSpec spec, AnswerIdentity identity)
    : state_(std::make_unique<State>(dialect, format, std::move(spec), identity)) {
  state_->n_running = state_->spec.n_choices;
}
Answer::~Answer() = default;
Answer::Answer(Answer&&) noexcept = default;

Answer::Next Answer::OnEvent(int32_t choice, const wire::TokenEvent& event, std::string& out) {
  SLUICE_CHECK(choice >= 0 && choice < state_->spec.n_choices);
  Choice& c = state_->choices[static_cast<size_t>(choice)];
  SLUICE_CHECK(c.state != ChoiceState::kDone);
  if (event.n_cached >= 0) {
    c.told = true;
    c.usage.n_prompt = state_->spec.n_prompt;
    c.usage.n_cached = event.n_cached;
  }
  if (event.end) {
    c.told = true;
    c.usage.n_prompt = event.end->usage.n_prompt;
    c.usage.n_cached = event.end->usage.n_cached;
  }
  if (c.state == ChoiceState::kStopped || c.state == ChoiceState::kClosed) {
    if (!event.end) return Next::kMore;
    if (c.state == ChoiceState::kClosed) {
      const bool at_limit = event.end->finish == wire::FinishReason::kLength;
      state_->End(choice, at_limit ? codec::Finish::kLength : c.finish, out);
    }
    c.state = ChoiceState::kDone;
    return Next::kChoiceDone;
  }
  if (c.state == ChoiceState::kNew) {
    state_->Encode([&](auto& e) { e.Begin(choice, usage(), out); });
    c.state = ChoiceState::kOpen;
  }

  state_->ShowPrompt(choice, event, out);
  if (c.turn) c.turn->TakeTokens(event.tokens);
  state_->Show(choice, c.lexer.Push(event.tokens, event.logprobs), out);
  if (event.end) state_->Show(choice, c.lexer.End(EndsAtLimit(event.end->finish)), out);
  c.usage.n_completion = c.lexer.n_tokens();
  const bool has_ended = c.lexer.ended() != OutputEnd::kNot;
  if (!has_ended && !event.end) return Next::kMore;
  if (!has_ended) {
    c.usage.n_completion = event.end->usage.n_completion;
    if (!state_->spec.profile.keep_tail) c.usage.n_completion -= c.lexer.n_undecoded();
  }
  c.finish = FinishOf(c.lexer, event.end.get());
  if (!event.end && c.lexer.ended() == OutputEnd::kCallsClosed) {
    c.state = ChoiceState::kClosed;
    return Next::kCancel;
  }
  state_->End(choice, c.finish, out);
  c.state = event.end ? ChoiceState::kDone : ChoiceState::kStopped;
  return event.end ? Next::kChoiceDone : Next::kCancel;
}

// The last finish frame of a stream carries the usage, unless a chunk of its own was asked for: it
// waits for Finish.
void Answer::State::End(int32_t index, codec::Finish finish, std::string& out) {
  Choice& c = choices[static_cast<size_t>(index)];
  c.finish = finish;
  c.usage.n_reasoning = c.lexer.CountReasoning();
  --n_running;
  const bool has_usage_chunk = spec.include_usage && spec.profile.usage_chunk;
  if (n_running == 0 && spec.stream && !has_usage_chunk) return;
  Encode([&](auto& e) { e.End(index, EndOf(c), nullptr, out); });
  c.ended = true;
}

// The turns that ended by themselves. Of the others, and of those that had to be repaired, nobody
// wants to read the tokens again.
void Answer::State::KeepTurns() {
  for (Choice& c : choices) {
    const bool has_ended =
        c.finish == codec::Finish::kStop || c.finish == codec::Finish::kToolCalls;
    if (!c.turn || !has_ended || !c.lexer.is_well_formed()) continue;
    c.turn->Keep(c.lexer.n_tokens(), end_of_turn);
  }
}

void Answer::Finish(std::string& out) {
  for (int32_t i = 0; i < state_->spec.n_choices; ++i) {
    Choice& c = state_->choices[static_cast<size_t>(i)];
    if (c.state == ChoiceState::kClosed) {
      state_->End(i, c.finish, out);
      c.state = ChoiceState::kStopped;
    }
    SLUICE_CHECK(c.state == ChoiceState::kDone || c.state == ChoiceState::kStopped);
  }
  state_->KeepTurns();
  const wire::Usage total = usage();
  for (int32_t i = 0; i < state_->spec.n_choices; ++i) {
    const Choice& c = state_->choices[static_cast<size_t>(i)];
    if (c.ended) continue;
    state_->Encode([&](auto& e) { e.End(i, EndOf(c), &total, out); });
  }
  state_->Encode([&](auto& e) { e.Finish(total, out); });
}

void Answer::Progress(const wire::PromptProgress& prompt, std::string& out) {
  state_->Encode([&](auto& e) {
    if constexpr (requires { e.OnProgress(prompt, out); }) e.OnProgress(prompt, out);
  });
}

void Answer::Heartbeat(std::string& out) {
  state_->Encode([&](auto& e) { e.Heartbeat(out); });
}

void Answer::Fail(const Status& status, std::string_view request_id, std::string& out) {
  state_->Encode([&](auto& e) { e.Fail(status, request_id, out); });
}

int64_t Answer::held_bytes() const {
  return state_->Encode([](auto& e) { return e.held_bytes(); });
}

codec::Finish Answer::finish(int32_t choice) const {
  return state_->choices[static_cast<size_t>(choice)].finish;
}

wire::Usage Answer::usage() const {
  wire::Usage total;
  total.n_prompt = state_->spec.n_prompt;
  bool told = false;
  for (const Choice& c : state_->choices) {
    if (c.told && !told) {
      total.n_prompt = c.usage.n_prompt;
      total.n_cached = c.usage.n_cached;
      told = true;
    }
    total.n_completion += c.usage.n_completion;
    total.n_reasoning += c.usage.n_reasoning;
  }
  return total;
}

const AnswerSpec& Answer::spec() const { return state_->spec; }

}  // namespace sluice::codec
