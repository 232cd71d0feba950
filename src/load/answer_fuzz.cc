// Whatever a server answers: no crash, no report, and a cut changes nothing but when things are
// seen.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "load/answer_reader.h"
#include "load/response_reader.h"
#include "load/sse_reader.h"

namespace {

using namespace sluice;
using namespace sluice::load;

struct Seen {
  bool failed = false;
  bool done = false;
  int64_t n_events = 0;
  bool operator==(const Seen&) const = default;
};

// The bytes in pieces of at most n.
Seen Read(std::string_view bytes, Api api, size_t n) {
  ResponseReader response;
  SseReader sse;
  AnswerReader answer(api, true);
  Seen seen;
  std::string inbox;
  while (!bytes.empty() && !seen.failed && !response.done()) {
    inbox += bytes.substr(0, n);
    bytes.remove_prefix(std::min(n, bytes.size()));
    std::string body;
    std::vector<SseEvent> events;
    const Result<size_t> n_taken = response.Feed(inbox, body);
    seen.failed = !n_taken || !sse.Push(body, events).ok();
    if (n_taken) inbox.erase(0, *n_taken);
    for (size_t i = 0; i < events.size() && !seen.failed; ++i) {
      seen.failed = !answer.OnEvent(events[i]).has_value();
      ++seen.n_events;
    }
  }
  seen.done = response.done();
  if (!seen.failed) (void)answer.Check(10);
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto api = static_cast<Api>(data[0] % 3);
  const Seen whole = Read(bytes, api, bytes.size() + 1);
  const Seen cut = Read(bytes, api, size_t{data[1]} + 1);
  // What is refused may be refused at another byte, so with other events before it.
  if (!whole.failed && !cut.failed) SLUICE_CHECK(whole == cut);
  return 0;
}
