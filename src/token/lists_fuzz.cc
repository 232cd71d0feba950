// Whatever the lists of a GGUF say: no crash, and what is accepted keeps the promises of
// Vocabulary.
//
// The input: a byte of flags, then texts ended by line feeds; one that begins with a digit is a
// token of that type, any other a merge. With a flag the 256 bytes come first, so that lists may be
// good.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "token/bpe.h"
#include "token/nfc.h"
#include "token/sample_tokenizer_test_impl.h"
#include "token/vocabulary.h"

namespace {

std::string TextOf(const sluice::token::Vocabulary& vocabulary,
                   const std::vector<sluice::TokenId>& ids) {
  std::string text;
  for (const sluice::TokenId id : ids) text += vocabulary.text(id);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  using namespace sluice::token;
  if (size == 0) return 0;
  constexpr std::string_view kPres[] = {"deepseek-v3", "smollm", "qwen2", "llama-bpe"};
  std::vector<std::string> bytes;
  if ((data[0] & 4) != 0) {
    for (int byte = 0; byte < 256; ++byte) {
      const char text = static_cast<char>(byte);
      bytes.push_back(ByteLevelText({&text, 1}));
    }
  }
  std::vector<std::string_view> tokens(bytes.begin(), bytes.end()), merges;
  std::vector<int64_t> types(tokens.size(), 1);
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line[0] >= '0' && line[0] <= '9') {
      types.push_back(line[0] - '0');
      tokens.push_back(line.substr(1));
    } else {
      merges.push_back(line);
    }
  }
  if ((data[0] & 8) != 0 && !types.empty()) types.pop_back();
  const Result<Vocabulary> vocabulary = Vocabulary::FromLists(
      {.pre = kPres[data[0] & 3], .tokens = tokens, .token_types = types, .merges = merges});
  if (!vocabulary) {
    SLUICE_CHECK(!vocabulary.error().message().empty());
    SLUICE_CHECK(vocabulary.error().message().size() < 2'000);
    return 0;
  }
  SLUICE_CHECK(vocabulary->size() == static_cast<int32_t>(tokens.size()));
  for (const Merge& merge : vocabulary->merges()) {
    std::string joined(vocabulary->text(merge.left));
    joined += vocabulary->text(merge.right);
    SLUICE_CHECK(vocabulary->text(merge.result) == joined);
  }
  const Bpe bpe(*vocabulary);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool composes = vocabulary->rules() == TextRules::kQwen2;
  std::vector<TokenId> ids;
  bpe.Encode(text, ids);
  std::string buffer;
  std::string expected(composes ? ToNfc(text, buffer) : text);
  std::erase_if(expected, [&](char byte) {
    return vocabulary->byte_tokens()[static_cast<unsigned char>(byte)].value < 0;
  });
  SLUICE_CHECK(TextOf(*vocabulary, ids) == expected);
  ids.clear();
  bpe.EncodeWithAdded(text, ids);
  // Added tokens split what would compose, and may have bytes that are no tokens.
  SLUICE_CHECK(TextOf(*vocabulary, ids) == text || composes || vocabulary->lacks_bytes());
  return 0;
}
