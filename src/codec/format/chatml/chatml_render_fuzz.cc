// A conversation of any texts: no crash, and no text of it is a control token. Input: a byte of
// flags, of which 1 says the family, then a conversation.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "codec/format/chatml/render.h"
#include "codec/format/chatml/sample_format_test_impl.h"
#include "codec/format/fuzz_input_test_impl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::codec;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool is_qwen = (data[0] & 1) != 0;
  const chatml::Format& format =
      chatml::SampleFormat(is_qwen ? chatml::Family::kQwen25 : chatml::Family::kSmollm2);
  const Conversation conversation = ReadConversation(data[0], rest);  // outlives the prompt
  const Prompt prompt = chatml::Render(conversation, format);
  const std::string text = CheckPrompt(prompt, format);
  SLUICE_CHECK(is_qwen || text == prompt.text);  // Qwen2.5 normalises
  return 0;
}
