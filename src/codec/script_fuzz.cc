// A script file through Parse and a few requests: no crash, and what is chosen keeps its limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "codec/script_book.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int32_t kVocabulary = 256;
  auto book =
      sluice::codec::ScriptBook::Parse({reinterpret_cast<const char*>(data), size}, kVocabulary);
  if (!book) {
    SLUICE_CHECK(!book.error().message().empty() && book.error().message().size() < 4096);
    return 0;
  }
  sluice::codec::DecodedRequest request;
  request.conversation.messages.push_back({.role = sluice::codec::Role::kUser, .text = "hello"});
  for (int i = 0; i < 8; ++i) {
    request.conversation.thinking = i % 2 == 0;
    auto play = book->Choose(i % 3 == 0 ? "completions" : "chat", request);
    SLUICE_CHECK(play != nullptr && play->n_per_event >= 1 && play->fault_after >= 0);
    SLUICE_CHECK(play->pace.ns >= 0 && play->first.ns >= 0);
    for (sluice::TokenId id : play->ids) SLUICE_CHECK(id.value >= 0 && id.value < kVocabulary);
  }
  return 0;
}
