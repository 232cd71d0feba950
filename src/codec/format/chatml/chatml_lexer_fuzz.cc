// Any cut of one output gives the same result, for both families, stop strings that never complete
// change nothing, and a complete call has JSON as its arguments. Input: two bytes of flags, a list
// of stop strings ended by 0, the sizes of the pieces ended by 0, then the output, in which control
// tokens are spelled.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "codec/format/chatml/lexer_run_test_impl.h"

namespace {

std::string_view TakeUntilZero(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

// Also with numbers that no double holds.
bool IsJson(std::string_view text) {
  const sluice::Result<sluice::Json> json = sluice::Json::Parse(text);
  return json || json.error().message().find("out of the range of a double") != std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::codec;
  using namespace sluice::codec::chatml;
  if (size < 2) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  AnswerSpec spec;
  spec.start = OutputStart::kContent;
  const Family family = (data[0] & 1) != 0 ? Family::kQwen25 : Family::kSmollm2;
  spec.logprobs = (data[0] & 4) != 0;
  spec.parses_calls = (data[0] & 8) != 0;
  if (spec.parses_calls && (data[0] & 16) != 0) {
    spec.calls_opening = (data[1] & 1) != 0 ? "<tool_call>[{\"name\": \"f\", \"arguments\":"
                                            : "<tool_call>\n{\"name\":";
  }
  spec.starts_in_calls = !spec.calls_opening.empty();
  spec.is_json = (data[0] & 32) != 0;
  spec.profile.remove_stray_specials = (data[0] & 64) == 0;
  const bool at_limit = (data[0] & 128) != 0;
  std::string text;
  sluice::AppendValidUtf8(text, TakeUntilZero(rest));
  for (std::string_view stops = text; !stops.empty() && spec.stops.size() < 16;) {
    const size_t end = std::min(stops.find('|'), stops.size());
    if (end > 0) spec.stops.emplace_back(stops.substr(0, end));
    stops.remove_prefix(std::min(end + 1, stops.size()));
  }
  std::vector<size_t> sizes;
  for (const char c : TakeUntilZero(rest)) sizes.push_back(static_cast<uint8_t>(c));
  std::erase(sizes, size_t{0});
  const Format& format = SampleFormat(family);
  const std::vector<sluice::TokenId> tokens = TokensOf(format, rest);
  const Lexed by_token = Lex(format, spec, tokens, {}, at_limit);
  SLUICE_CHECK(Lex(format, spec, tokens, sizes, at_limit) == by_token);
  SLUICE_CHECK(Lex(format, spec, tokens, {tokens.size() + 1}, at_limit) == by_token);
  for (const LexedCall& call : by_token.calls) {
    if (call.is_complete) SLUICE_CHECK(IsJson(call.arguments));
  }
  if (by_token.ended != OutputEnd::kStopString) {
    spec.stops.clear();
    SLUICE_CHECK(Lex(format, spec, tokens, sizes, at_limit) == by_token);
  }
  SLUICE_CHECK(by_token.n_tokens <= std::ssize(tokens));
  return 0;
}
