#include "codec/format/output_lexer.h"

#include <algorithm>

namespace sluice::codec {

OutputLexer::OutputLexer(const Params& params)
    : n_vocabulary_(params.format.n_tokens()),
      writer_({.vocabulary = params.format.vocabulary(),
               .spec = params.spec,
               .ids = {.entropy = params.entropy, .choice = params.choice}}),
      lexer_(Make(params, writer_)) {}

OutputLexer::Lexer OutputLexer::Make(const Params& params, OutputWriter& writer) {
  const auto& format = params.format.format_;
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format)) {
    return Lexer(
        std::in_place_type<chatml::OutputLexer>,
        chatml::OutputLexer::Params{
            .format = **chatml, .spec = params.spec, .stops = params.stops, .writer = writer});
  }
  return Lexer(
      std::in_place_type<deepseek_v41::OutputLexer>,
      deepseek_v41::OutputLexer::Params{.format = *std::get<const deepseek_v41::Format*>(format),
                                        .spec = params.spec,
                                        .stops = params.stops,
                                        .writer = writer});
}

std::span<const OutputEvent> OutputLexer::Push(std::span<const TokenId> tokens,
                                               std::span<const wire::TokenLogprob> logprobs) {
  writer_.Clear();
  for (size_t i = 0; i < tokens.size() && ended() == OutputEnd::kNot; ++i) {
    if (tokens[i].value < 0 || tokens[i].value >= n_vocabulary_) {
      has_unknown_tokens_ = true;
      continue;
    }
    writer_.Read(tokens[i], i < logprobs.size() ? &logprobs[i] : nullptr);
    std::visit([&](auto& lexer) { lexer.Push(tokens[i]); }, lexer_);
  }
  return Events();
}

std::span<const OutputEvent> OutputLexer::End(bool at_limit) {
  writer_.Clear();
  if (ended() != OutputEnd::kNot) return Events();
  const int32_t first =
      std::visit([](const auto& lexer) { return lexer.first_undecoded_token(); }, lexer_);
  n_undecoded_ = std::max(writer_.n_read() - first, 0);
  std::visit([&](auto& lexer) { lexer.End(at_limit); }, lexer_);
  return writer_.Events(writer_.n_read());  // a part of a character is never completed
}

std::span<const OutputEvent> OutputLexer::Events() {
  return writer_.Events(
      std::visit([](const auto& lexer) { return lexer.first_held_token(); }, lexer_));
}

}  // namespace sluice::codec
