#include "codec/format/output_lexer.h"

namespace sluice::codec {

OutputLexer::Lexer OutputLexer::Make(const Params& params) {
  const auto& format = params.format.format_;
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format)) {
    return Lexer(std::in_place_type<chatml::OutputLexer>,
                 chatml::OutputLexer::Params{.format = **chatml,
                                             .spec = params.spec,
                                             .stops = params.stops,
                                             .entropy = params.entropy,
                                             .choice = params.choice});
  }
  return Lexer(
      std::in_place_type<deepseek_v41::OutputLexer>,
      deepseek_v41::OutputLexer::Params{.format = *std::get<const deepseek_v41::Format*>(format),
                                        .spec = params.spec,
                                        .stops = params.stops,
                                        .entropy = params.entropy,
                                        .choice = params.choice});
}

}  // namespace sluice::codec
