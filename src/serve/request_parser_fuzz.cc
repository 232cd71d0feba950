// Any bytes, cut anywhere: the parser ends in a request or a refusal, and the same one for every
// way of cutting.

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "serve/request_parser.h"

namespace {

using sluice::serve::RequestParser;

struct Outcome {
  bool refused = false;
  bool done = false;
  std::string path, body;
  bool operator==(const Outcome&) const = default;
};

Outcome Parse(std::string_view bytes, size_t n_piece) {
  RequestParser parser({.header_bytes = 512, .body_bytes = 256});
  Outcome outcome;
  std::string inbox;
  while (true) {
    sluice::Result<size_t> n = parser.Feed(inbox);
    if (!n) {
      outcome.refused = true;
      return outcome;
    }
    SLUICE_CHECK(*n <= inbox.size());
    inbox.erase(0, *n);
    if (parser.done()) break;
    if (*n > 0 && !inbox.empty()) continue;
    if (bytes.empty()) return outcome;
    inbox += bytes.substr(0, n_piece);
    bytes.remove_prefix(std::min(n_piece, bytes.size()));
  }
  outcome.done = true;
  outcome.path = parser.head().path;
  outcome.body = parser.TakeBody();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Outcome whole = Parse(bytes, bytes.size() + 1);
  Outcome cut = Parse(bytes, 1 + size % 7);
  // Cut bytes may be refused earlier or, above a limit, later; what is accepted is the same.
  if (whole.done && cut.done) SLUICE_CHECK(whole == cut);
  return 0;
}
