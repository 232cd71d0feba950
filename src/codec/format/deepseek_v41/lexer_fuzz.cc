// Any cut of one output gives the same result, in any state and both profiles, and a complete call
// has JSON as its arguments. Input: two bytes of flags, then stop strings, cut and output.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "codec/format/fuzz_input_test_impl.h"
#include "codec/sample_format_test_impl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::codec;
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  LexerInput input = ReadLexerInput(data[0], rest);
  AnswerSpec& spec = input.spec;
  spec.start = static_cast<OutputStart>(data[0] & 3);
  spec.starts_in_calls = spec.parses_calls && (data[0] & 16) != 0;
  if ((data[0] & 64) != 0) spec.profile = Profile::Reference();
  if ((data[1] & 1) != 0) {
    spec.tools.push_back({.name = "f",
                          .description = {},
                          .parameters = R"({"properties":{"k":{"type":"string"}}})"});
  }
  const Lexed lexed = LexByAnyCut(SampleFormat(), input);
  if (!spec.profile.repair_calls) return 0;
  for (const LexedCall& call : lexed.calls) {
    if (call.is_complete) SLUICE_CHECK(sluice::Json::Parse(call.arguments).has_value());
  }
  return 0;
}
