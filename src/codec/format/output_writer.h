// OutputWriter: the output of one choice: which of its tokens were read, what was shown of them as
// events, and where it ended. What a token means is not its business: the lexer of a format knows
// that, and writes here what becomes visible. Owned by codec::OutputLexer.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "codec/call_id.h"
#include "codec/conversation.h"
#include "codec/format/character.h"
#include "codec/format/content_filter.h"
#include "codec/format/event_list.h"
#include "codec/format/visible_tokens.h"
#include "codec/output_event.h"
#include "token/vocabulary.h"
#include "wire/event.h"

namespace sluice::codec {

class OutputWriter {
 public:
  // All outlive the writer.
  struct Params {
    const token::Vocabulary& vocabulary;
    const AnswerSpec& spec;
    CallIdParams ids;
  };
  explicit OutputWriter(const Params& params);
  OutputWriter(const OutputWriter&) = delete;  // lexers refer to it
  OutputWriter& operator=(const OutputWriter&) = delete;

  // Forgets the events.
  void Clear();
  // The next token. `logprob`: null if the service told none.
  void Read(TokenId token, const wire::TokenLogprob* logprob);
  // The token that was read last is no part of the output.
  void Unread() { --n_read_; }
  int32_t n_read() const { return n_read_; }
  int32_t last_token() const { return n_read_ - 1; }  // its index

  // kind: reasoning or content.
  void Show(OutputKind kind, const Character& c);
  void Show(const ContentFilter::Item& item);
  // The text of the token that was read last, as a whole.
  void ShowToken(OutputKind kind, std::string_view text);
  // For the events of calls.
  EventList& events() { return events_; }
  int32_t n_calls() const { return events_.n_calls(); }

  // `n_tokens`: up to there they count.
  void Finish(OutputEnd ended, int32_t n_tokens);
  OutputEnd ended() const { return ended_; }
  int32_t n_tokens() const { return ended_ == OutputEnd::kNot ? n_read_ : n_tokens_at_end_; }

  // Since Clear. Tokens before `first_held_token` were shown or never will be. The views live until
  // Clear.
  std::span<const OutputEvent> Events(int32_t first_held_token);

 private:
  EventList events_;
  std::optional<VisibleTokens> visible_;  // absent: nobody asked for log probabilities
  int32_t n_read_ = 0;
  int32_t n_tokens_at_end_ = 0;
  OutputEnd ended_ = OutputEnd::kNot;
};

}  // namespace sluice::codec
