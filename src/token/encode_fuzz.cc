// Whatever the merges and the text are: the ids are those of the slow and obvious encoder, and the
// detokenizer gives out UTF-8 that does not depend on how the ids are cut.
//
// The input: a byte that counts merges and chooses the rules, two bytes for each of them (which
// texts so far they join), then the text.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "token/bpe.h"
#include "token/detokenizer.h"
#include "token/nfc.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::token {
namespace {

// Takes what it uses off `input`.
std::vector<TextPair> ReadMerges(std::string_view& input) {
  // A few bytes, so that merges meet: letters, a space, and parts of characters.
  std::vector<std::string> texts = {"a", "b", " ", "1", "\xE4", "\xBD", "\xA0", "!"};
  std::vector<TextPair> merges;
  std::set<TextPair> pairs;
  const size_t n = input.empty() ? 0 : static_cast<unsigned char>(input[0]) % 64;
  input.remove_prefix(std::min<size_t>(1, input.size()));
  for (size_t i = 0; i < n && input.size() >= 2; ++i) {
    const TextPair pair(texts[static_cast<unsigned char>(input[0]) % texts.size()],
                        texts[static_cast<unsigned char>(input[1]) % texts.size()]);
    input.remove_prefix(2);
    if (pair.first.size() + pair.second.size() > 64 || !pairs.insert(pair).second) continue;
    merges.push_back(pair);
    texts.push_back(pair.first + pair.second);
  }
  return merges;
}

std::string Decode(const Vocabulary& vocabulary, std::span<const TokenId> ids, size_t n_at_once) {
  Detokenizer detokenizer(vocabulary);
  std::vector<std::string> texts;
  while (!ids.empty()) {
    const size_t n = std::min(n_at_once, ids.size());
    detokenizer.Push(ids.first(n), texts);
    ids = ids.subspan(n);
  }
  texts.push_back(detokenizer.Finish());
  std::string joined;
  for (const std::string& text : texts) {
    SLUICE_CHECK(ValidUtf8Prefix(text) == text.size());
    joined += text;
  }
  return joined;
}

void Try(std::string_view input) {
  constexpr TextRules kRules[] = {TextRules::kDeepseekV3, TextRules::kSmollm, TextRules::kQwen2};
  // The merges read their count modulo 64; which rules, the bits above it.
  const TextRules rules =
      input.empty() ? kRules[0] : kRules[static_cast<unsigned char>(input[0]) / 64 % 3];
  const std::vector<TextPair> merges = ReadMerges(input);
  const std::string_view text = input.substr(0, 256);  // the slow encoder is quadratic
  const Result<Vocabulary> vocabulary =
      Vocabulary::Parse(SampleTokenizer(merges, {"ab<", "ab<b", "é"}, rules));
  SLUICE_CHECK(vocabulary.has_value());
  const Bpe bpe(*vocabulary);
  std::vector<TokenId> ids;
  bpe.Encode(text, ids);
  std::string buffer, again;
  const std::string_view composed =
      rules == TextRules::kQwen2 ? ToNfc(text, buffer) : std::string_view(text);
  SLUICE_CHECK(ToNfc(composed, again) == composed || rules != TextRules::kQwen2);
  SLUICE_CHECK(TextsOf(*vocabulary, ids) == SlowEncoder(*vocabulary).Encode(composed));
  std::vector<TokenId> with_added;
  bpe.EncodeWithAdded(text, with_added);
  std::string joined;
  for (const TokenId id : with_added) joined += vocabulary->text(id);
  // Between added tokens, which split what would compose, pieces of it are in NFC.
  SLUICE_CHECK(joined == text || rules == TextRules::kQwen2);
  const std::string whole = Decode(*vocabulary, with_added, with_added.size() + 1);
  SLUICE_CHECK(Decode(*vocabulary, with_added, 1) == whole &&
               Decode(*vocabulary, with_added, 3) == whole);
}

}  // namespace
}  // namespace sluice::token

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::token::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
