// A script file through Parse and a few requests: no crash, and what is chosen keeps its limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "codec/sample_format_test_impl.h"
#include "codec/script_book.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sluice::codec::deepseek_v41::Format& format = sluice::codec::SampleFormat();
  auto book = sluice::codec::ScriptBook::Parse({reinterpret_cast<const char*>(data), size},
                                               format.n_tokens());
  if (!book) {
    SLUICE_CHECK(!book.error().message().empty() && book.error().message().size() < 4096);
    return 0;
  }
  sluice::codec::DecodedRequest request;
  request.conversation.messages.push_back({.role = sluice::codec::Role::kUser, .text = "hello"});
  for (int i = 0; i < 8; ++i) {
    request.conversation.thinking = i % 2 == 0;
    auto play = book->Choose(i % 3 == 0 ? "completions" : "chat", request, format);
    SLUICE_CHECK(play != nullptr && play->n_per_event >= 1 && play->fault_after >= 0);
    SLUICE_CHECK(play->pace.ns >= 0 && play->first.ns >= 0);
    for (sluice::TokenId id : play->ids)
      SLUICE_CHECK(id.value >= 0 && id.value < format.n_tokens());
  }
  return 0;
}
