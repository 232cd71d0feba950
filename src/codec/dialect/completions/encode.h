// Encoder: OutputEvents as the bytes of a Completions answer, streamed or whole
// (dialect/completions/schema.md). One per request; owned by the net thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect.h"
#include "codec/output_event.h"
#include "wire/usage.h"

namespace sluice::codec::completions {

// An AnswerEncoder (dialect/encoder.h).
class Encoder {
 public:
  // `spec` outlives the encoder.
  Encoder(const AnswerSpec& spec, const AnswerIdentity& identity);

  void Begin(int32_t choice, const wire::Usage& usage, std::string& out);
  void OnPrompt(int32_t choice, const PromptPiece& piece, std::string& out);
  void OnEvent(int32_t choice, const OutputEvent& event, std::string& out);
  void End(int32_t choice, const ChoiceEnd& end, const wire::Usage* usage, std::string& out);
  void Finish(const wire::Usage& usage, std::string& out);
  void Heartbeat(std::string& out) const;
  void Fail(const Status& status, std::string_view request_id, std::string& out) const;
  int64_t held_bytes() const { return held_bytes_; }

 private:
  // Log probabilities as comma-separated lists without brackets.
  struct Logprobs {
    std::string tokens;
    std::string values;
    std::string tops;
    std::string offsets;

    int64_t n_bytes() const {
      return static_cast<int64_t>(tokens.size() + values.size() + tops.size() + offsets.size());
    }
  };
  struct Choice {
    int64_t n_chars = 0;          // of the text so far: where the next token begins
    std::string text;             // whole
    Logprobs logprobs;            // whole
    std::string prompt_logprobs;  // a comma-separated list without brackets
    const char* finish_reason = "";
  };

  void AppendChunk(int32_t choice,
                   std::string_view text,
                   std::string_view logprobs,
                   std::string& out) const;
  void Collect(const OutputEvent& event, Choice& choice, Logprobs& into) const;
  void CollectPrompt(const PromptPiece& piece, Choice& choice, Logprobs& into) const;
  static std::string ObjectOf(const Logprobs& logprobs);

  const AnswerSpec& spec_;
  std::string head_;  // what all objects of the answer share: an open object
  std::vector<Choice> choices_;
  int64_t held_bytes_ = 0;
};

}  // namespace sluice::codec::completions
