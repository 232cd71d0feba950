// Any cut of one byte stream gives the same output. Input: a byte of flags, a list of stop strings
// ended by 0, the sizes of the pieces ended by 0, then the stream.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/format/bytes/output_lexer.h"

namespace {

using sluice::TokenId;
using sluice::codec::OutputEvent;
using sluice::codec::OutputKind;
using sluice::codec::StopSet;
using sluice::codec::bytes::OutputLexer;

struct Output {
  std::string text[2];
  int32_t n_entries = 0;
  int32_t n_tokens = 0;
  int32_t n_reasoning = 0;
  bool stopped = false;
  friend bool operator==(const Output&, const Output&) = default;
};

void Collect(std::span<const OutputEvent> events, Output& output) {
  for (const OutputEvent& event : events) {
    SLUICE_CHECK(sluice::ValidUtf8Prefix(event.text) == event.text.size());
    output.text[static_cast<int>(event.kind)] += event.text;
    output.n_entries += static_cast<int32_t>(event.logprobs.size());
  }
}

Output Lex(const OutputLexer::Params& params, std::string_view stream, std::string_view sizes) {
  OutputLexer lexer(params);
  Output output;
  for (size_t at = 0, i = 0; at < stream.size() && !lexer.stopped(); ++i) {
    size_t n = sizes.empty() ? 1 : static_cast<uint8_t>(sizes[i % sizes.size()]);
    n = std::min(n, stream.size() - at);
    std::vector<TokenId> tokens;
    for (char c : stream.substr(at, n)) tokens.push_back(TokenId(static_cast<uint8_t>(c)));
    at += n;
    Collect(lexer.Push(tokens, {}), output);
  }
  if (!lexer.stopped()) Collect(lexer.End(), output);
  output.n_tokens = lexer.n_tokens();
  output.n_reasoning = lexer.n_reasoning();
  output.stopped = lexer.stopped();
  return output;
}

std::string_view TakeUntilZero(std::string_view& rest) {
  size_t end = std::min(rest.find('\0'), rest.size());
  std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> list;
  std::string text;
  sluice::AppendValidUtf8(text, TakeUntilZero(rest));
  for (std::string_view stops = text; !stops.empty() && list.size() < 16;) {
    size_t end = std::min(stops.find('|'), stops.size());
    if (end > 0) list.emplace_back(stops.substr(0, end));
    stops.remove_prefix(std::min(end + 1, stops.size()));
  }
  StopSet stops(list);
  std::string_view sizes = TakeUntilZero(rest);
  OutputLexer::Params params{.start = static_cast<sluice::codec::OutputStart>(data[0] & 3),
                             .stops = stops,
                             .logprobs = (data[0] & 4) != 0};
  Output by_byte = Lex(params, rest, {});
  SLUICE_CHECK(Lex(params, rest, sizes) == by_byte);
  SLUICE_CHECK(Lex(params, rest, "\xFF") == by_byte);
  for (const std::string& stop : list) {
    // A stop string that shows in content would have ended it, unless a mark stood in it.
    if (rest.find("</think>") == std::string_view::npos && (data[0] & 2) != 0 && stop != "\n" &&
        stop[0] != '\n') {
      SLUICE_CHECK(by_byte.text[1].find(stop) == std::string::npos);
    }
  }
  return 0;
}
