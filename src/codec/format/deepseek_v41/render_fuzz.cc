// A conversation of any texts: no crash, and no text of it is a control token. Input: a byte of
// flags, of which 1 says that the model thinks, then a conversation.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "codec/format/deepseek_v41/render.h"
#include "codec/format/fuzz_input_test_impl.h"
#include "codec/sample_format_test_impl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::codec;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  Conversation conversation = ReadConversation(data[0], rest);
  conversation.thinking = (data[0] & 1) != 0;
  const Prompt prompt = deepseek_v41::Render(conversation, {});
  SLUICE_CHECK(CheckPrompt(prompt, SampleFormat()) == prompt.text);
  return 0;
}
