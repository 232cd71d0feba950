// Whatever tokenizer.json says: no crash, and what is accepted keeps the promises of Vocabulary and
// gives back the bytes it was given.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "token/bpe.h"
#include "token/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  using namespace sluice::token;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Result<Vocabulary> vocabulary = Vocabulary::Parse(file);
  if (!vocabulary) {
    SLUICE_CHECK(!vocabulary.error().message().empty());
    SLUICE_CHECK(vocabulary.error().message().size() < 2'000);
    return 0;
  }
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string_view text = vocabulary->text(TokenId(id));
    SLUICE_CHECK(!text.empty() && static_cast<int64_t>(text.size()) <= limits::kMaxTokenBytes);
  }
  for (const Merge& merge : vocabulary->merges()) {
    std::string joined(vocabulary->text(merge.left));
    joined += vocabulary->text(merge.right);
    SLUICE_CHECK(vocabulary->text(merge.result) == joined);
  }
  for (const AddedToken& added : vocabulary->added()) {
    SLUICE_CHECK(vocabulary->FindControl(vocabulary->text(added.id)) == added.id);
  }
  const Bpe bpe(*vocabulary);
  std::vector<TokenId> ids;
  bpe.EncodeWithAdded(file, ids);
  std::string joined;
  for (const TokenId id : ids) joined += vocabulary->text(id);
  SLUICE_CHECK(joined == file || vocabulary->lacks_bytes() ||
               vocabulary->rules() == TextRules::kQwen2);
  return 0;
}
