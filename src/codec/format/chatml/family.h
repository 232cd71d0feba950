// The families of models that write ChatML: the same turns, other words. Plain data; the texts are
// those of the models' own chat templates and model cards, and a changed byte changes what the
// model was trained to read (Apache-2.0, Hugging Face and Alibaba Cloud: THIRD_PARTY.md).

#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::codec::chatml {

enum class Family : uint8_t { kSmollm2, kQwen25 };

struct Words {
  std::string_view name;            // as --chat-format has it
  std::string_view default_system;  // of a conversation without a system message
  // With tools: stands between the system's text and the list of tools, and behind the list.
  std::string_view tools_before;
  std::string_view tools_after;
  // The list is one JSON array, and so are the calls of a turn; else each tool has a line and each
  // call its own tag. Without a system message its instruction stands alone.
  bool in_lists;
  // What the model's makers recommend, for requests that ask for nothing.
  double temperature;
  double top_p;
  int32_t top_k;  // 0: all
  double repetition_penalty;
};

const Words& WordsOf(Family family);
std::string_view NameOf(Family family);

}  // namespace sluice::codec::chatml
