// However a sequence is cut, batched, cached or threaded, its logits have the same bits.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/dense/dense.h"
#include "model/dense/tiny_test_impl.h"

namespace sluice::model::dense {
namespace {

std::span<const TokenId> Cut(const std::vector<TokenId>& tokens, int32_t begin, int32_t end) {
  return std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

class DenseSequences : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  const std::vector<TokenId> tokens_ = GoldenTokens(name_);
  const int32_t n_ = static_cast<int32_t>(tokens_.size());
  const std::vector<float> whole_ = Tiny(name_).Append(0, tokens_, n_);
};

TEST_P(DenseSequences, PiecesOfAnyLengthAndSingleTokensGiveWhatTheWholeGives) {
  int32_t n_threads = 0;
  for (const int32_t piece : {1, 2, 7, 63, 64, 65, 100}) {
    n_threads = n_threads % 3 + 1;
    Tiny tiny(name_, n_threads);
    std::vector<float> logits;
    for (int32_t at = 0; at < n_; at += piece) {
      const int32_t end = std::min(n_, at + piece);
      const std::vector<float> some = tiny.Append(0, Cut(tokens_, at, end), end - at);
      logits.insert(logits.end(), some.begin(), some.end());
    }
    ASSERT_EQ(logits, whole_) << piece << " tokens at a time, " << n_threads << " threads";
  }
}

TEST_P(DenseSequences, RowsWithoutLogitsChangeNothingButTheTime) {
  Tiny tiny(name_);
  const std::vector<float> last = tiny.Append(0, tokens_, 1);
  EXPECT_EQ(last, std::vector<float>(whole_.end() - std::ssize(last), whole_.end()));
  tiny.sequences->Clear(0);
  EXPECT_TRUE(tiny.Append(0, Cut(tokens_, 0, n_ - 1), 0).empty());
  EXPECT_EQ(tiny.Append(0, Cut(tokens_, n_ - 1, n_), 1), last);
}

TEST_P(DenseSequences, TogetherWithOthersAtOtherPositionsARowIsWhatItIsAlone) {
  Tiny alone(name_);
  Tiny together(name_, 2);
  // Sequence s begins with token s of the golden ones, so no two are alike.
  const int32_t lengths[] = {100, 1, 64, 37};
  std::vector<std::vector<TokenId>> texts;
  std::vector<Sequences::Part> parts;
  std::vector<float> want;
  for (int32_t s = 0; s < 4; ++s) {
    texts.emplace_back(tokens_.begin() + s, tokens_.end());
  }
  // Three steps: prompts, then single tokens beside pieces.
  std::vector<int32_t> done(4, 0);
  for (int32_t step = 0; step < 3; ++step) {
    parts.clear();
    want.clear();
    for (int32_t s = 0; s < 4; ++s) {
      const int32_t n = step == 0 ? lengths[s] : s % 2 == 0 ? 1 : 9;
      const auto at = static_cast<size_t>(s);
      const std::span<const TokenId> some = Cut(texts[at], done[at], done[at] + n);
      parts.push_back({.seq = s, .tokens = some, .n_logits = s == 2 ? 0 : 1});
      const std::vector<float> logits = alone.Append(s, some, s == 2 ? 0 : 1);
      want.insert(want.end(), logits.begin(), logits.end());
      done[at] += n;
    }
    Result<Sequences::Outputs> out = together.sequences->Run(parts);
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->logits, want) << "step " << step;
  }
}

TEST_P(DenseSequences, BehindAPrefixOfAnyLengthNothingRunsAgainAndNothingChanges) {
  Tiny cold(name_);
  cold.Append(0, tokens_, 0);
  for (const int32_t n_hit : {1, 2, 63, 64, 65, 128, 149}) {
    Tiny warm(name_);
    warm.sequences->ImportPrefix(1, cold.sequences->ExportPrefix(0, n_hit));
    const std::vector<float> logits = warm.Append(1, Cut(tokens_, n_hit, n_), n_ - n_hit);
    EXPECT_EQ(logits, std::vector<float>(whole_.end() - std::ssize(logits), whole_.end()))
        << n_hit << " tokens";
  }
}

// Replay is of no use here; who asks for it gets the same.
TEST_P(DenseSequences, ReplayedRowsWriteNothingAndChangeNothing) {
  Tiny cold(name_);
  cold.Append(0, Cut(tokens_, 0, 100), 0);
  const Sequences::Prefix before = cold.sequences->ExportPrefix(0, 100);
  const Sequences::Part part{
      .seq = 0, .tokens = Cut(tokens_, 100, n_), .n_replay = 30, .n_logits = 1};
  Result<Sequences::Outputs> out = cold.sequences->Run({&part, 1});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->logits, std::vector<float>(whole_.end() - std::ssize(out->logits), whole_.end()));
  EXPECT_EQ(cold.sequences->ExportPrefix(0, 100).rows, before.rows);
}

TEST_P(DenseSequences, SlotsHoldNothingAndBlocksHoldKeysAndValues) {
  const LoadedModel loaded = LoadTiny(name_);
  const ModelInfo& info = loaded.model->info();
  EXPECT_EQ(info.window, 0);
  EXPECT_EQ(info.n_exact_replay, 0);
  EXPECT_EQ(info.layout.slot_bytes(), 0);
  const int64_t n_key_values = name_ == "qwen2" ? 16 : 3 * 12;
  EXPECT_EQ(info.layout.block_bytes(), 64 * 2 * 2 * n_key_values * 2);  // layers, kinds, bf16
}

TEST_P(DenseSequences, ImagesAreRefused) {
  const LoadedModel loaded = LoadTiny(name_);
  const std::vector<Bf16> media(static_cast<size_t>(loaded.model->info().hidden_size));
  const Status status = loaded.model->Check({.media = media}, {});
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         DenseSequences,
                         testing::ValuesIn(kTinyModels),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '.');
                           return name;
                         });

}  // namespace
}  // namespace sluice::model::dense
