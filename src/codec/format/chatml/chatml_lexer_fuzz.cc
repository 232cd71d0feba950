// Any cut of one output gives the same result, for both families, stop strings that never complete
// change nothing, and a complete call has JSON as its arguments. Input: two bytes of flags, then
// stop strings, cut and output.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "codec/format/chatml/sample_format_test_impl.h"
#include "codec/format/fuzz_input_test_impl.h"

namespace {

// Also with numbers that no double holds.
bool IsJson(std::string_view text) {
  const sluice::Result<sluice::Json> json = sluice::Json::Parse(text);
  return json || json.error().message().find("out of the range of a double") != std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::codec;
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  LexerInput input = ReadLexerInput(data[0], rest);
  AnswerSpec& spec = input.spec;
  spec.start = OutputStart::kContent;
  if (spec.parses_calls && (data[0] & 16) != 0) {
    spec.calls_opening = (data[1] & 1) != 0 ? "<tool_call>[{\"name\": \"f\", \"arguments\":"
                                            : "<tool_call>\n{\"name\":";
  }
  spec.starts_in_calls = !spec.calls_opening.empty();
  spec.profile.remove_stray_specials = (data[0] & 64) == 0;
  const bool is_qwen = (data[0] & 1) != 0;
  const chatml::Format& format =
      chatml::SampleFormat(is_qwen ? chatml::Family::kQwen25 : chatml::Family::kSmollm2);
  const Lexed lexed = LexByAnyCut(format, input);
  SLUICE_CHECK(lexed.reasoning.empty());
  for (const LexedCall& call : lexed.calls) {
    if (call.is_complete) SLUICE_CHECK(IsJson(call.arguments));
  }
  if (lexed.ended != OutputEnd::kStopString) {
    spec.stops.clear();
    SLUICE_CHECK(LexByAnyCut(format, input) == lexed);
  }
  return 0;
}
