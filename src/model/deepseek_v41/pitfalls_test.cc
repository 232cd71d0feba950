// What implementers of this model got wrong (spec model.md §7): a test for each item that can occur
// here and that no operator's test catches by itself; PITFALLS.md lists them all. Numbers are those
// of the items, C numbers those of spec open-cases.md. Everything is exact arithmetic against
// goldens, so that a last bit counts; tools/mutations.txt makes the mistakes one by one.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/rotary/op.h"
#include "model/deepseek_v41/golden_tiny_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr int32_t kFedLayers[] = {1, 2, 6, 8};
constexpr int32_t kPlain = 1;      // window only, and Engram
constexpr int32_t kPairs = 2;      // source of entries at ratio 2
constexpr int32_t kSingles = 6;    // source at ratio 1, and of candidates
constexpr int32_t kReindexed = 8;  // scores inside the candidates of layer 6

// Fed once per layer.
const FedLayer& Layer(int32_t layer) {
  static std::map<int32_t, FedLayer> layers;
  return layers.try_emplace(layer, layer).first->second;
}

void ExpectGolden(std::initializer_list<int32_t> layers, std::initializer_list<const char*> names) {
  for (const int32_t layer : layers) {
    for (const char* name : names) {
      EXPECT_TRUE(Layer(layer).IsGolden(name)) << name << " of layer " << layer;
    }
  }
}
void ExpectGolden(std::initializer_list<const char*> names) {
  for (const int32_t layer : kFedLayers) ExpectGolden({layer}, names);
}

// A tiny-a that differs from the golden one in its config.
template <typename Change>
std::unique_ptr<DeepseekV41> Changed(const Change& change) {
  Config config = TinyConfig();
  change(config);
  return MakeTiny(config);
}

// vLLM feeds float32 into the norm, the official code bf16; pairs are pooled from unrounded values.
TEST(Pitfalls, N07_ALatentOfOneTokenIsRoundedBeforeItsNormAndPairsArePooledUnrounded) {
  ExpectGolden({kSingles, kPairs}, {"entry_rows", "key_rows"});
}

// vLLM quantises it; the weight alone is FP8 in the official code.
TEST(Pitfalls, N06_TheInputOfTheFirstOutputProjectionIsNotQuantized) { ExpectGolden({"attn_out"}); }

// V4 turned index keys and queries by a Hadamard matrix; the Engram of the paper convolves.
TEST(Pitfalls, N12_IndexKeysAndQueriesHaveNoHadamardTransformAndEngramNoConvolution) {
  ExpectGolden({kPairs, kSingles}, {"key_rows", "index_q_rows", "index_scores"});
  ExpectGolden({kReindexed}, {"index_q_rows", "index_scores", "selected"});
  ExpectGolden({kPlain}, {"engram_rows", "engram_kv", "engram_gate", "engram_out"});
}

// V4's norm of each head multiplied the perplexity by a hundred, without any error.
TEST(Pitfalls, N13_C76_HeadsOfQueriesAreNotNormalized) { ExpectGolden({"q"}); }

TEST(Pitfalls, N15_C77_WindowLayersTurnByTheBaseTableAndCompressedOnesByYarn) {
  ExpectGolden({"q", "window_rows"});
  ExpectGolden({kPairs, kSingles}, {"entry_rows", "key_rows", "index_q_rows"});
  ExpectGolden({kReindexed}, {"index_q_rows"});
  // The tables differ where the golden looks, and the plain one is really the plain one.
  const Tables& tables = Tiny().tables();
  EXPECT_EQ(tables.plain_frequencies, ops::rotary::Frequencies({.n_rotated = 16, .base = 10000}));
  EXPECT_EQ(tables.yarn_frequencies, ops::rotary::Frequencies({.n_rotated = 16,
                                                               .base = 160000,
                                                               .n_original = 64,
                                                               .factor = 4,
                                                               .beta_fast = 32,
                                                               .beta_slow = 1}));
  for (size_t pair = 1; pair < tables.plain_frequencies.size(); ++pair) {
    EXPECT_NE(tables.plain_frequencies[pair], tables.yarn_frequencies[pair]);
  }
}

TEST(Pitfalls, N16_TheSoftmaxHasNoYarnTemperature) { ExpectGolden({"attn_o"}); }

TEST(Pitfalls, N16_TheRotationOfTheOutputIsUndone) { ExpectGolden({"attn_out"}); }

// Not at the index of the group, and not left as they are.
TEST(Pitfalls, N16_EntriesAndKeysTurnByTheTokenThatTheyBeginWith) {
  ExpectGolden({kPairs}, {"entry_rows", "key_rows"});
}

TEST(Pitfalls, N17_TheCollapseIsRoundedBeforeItsNormAndExpertsAtEveryBoundary) {
  ExpectGolden({"attn_in", "ffn_in", "expert_out", "shared_out", "ffn_out", "streams_out"});
}

TEST(Pitfalls, N18_TheRoutingWeightComesBeforeTheDownProjection) {
  ExpectGolden({"expert_weights", "expert_out"});
}

// Each epsilon reaches what it belongs to and nothing else: 1e-20 all norms, 1e-6 the rest.
TEST(Pitfalls, N19_NormsAndHyperConnectionsHaveTheirOwnEpsilon) {
  ExpectGolden({"attn_in", "attn_pre", "attn_comb", "window_rows", "expert_weights"});
  const auto norms = Changed([](Config& c) { c.rms_norm_eps = 0.25; });
  const FedLayer other_norms(kPlain, *norms);
  for (const char* name : {"attn_in", "q", "window_rows", "engram_gate", "attn_pre", "attn_comb"}) {
    EXPECT_FALSE(other_norms.IsGolden(name)) << name;
  }
  const auto hyper = Changed([](Config& c) { c.hc_eps = 0.25; });
  const FedLayer other_hyper(kPlain, *hyper);
  for (const char* name : {"attn_pre", "attn_comb"}) {
    EXPECT_FALSE(other_hyper.IsGolden(name)) << name;
  }
  for (const char* name : {"attn_in", "q", "window_rows", "engram_gate", "attn_out"}) {
    EXPECT_TRUE(other_hyper.IsGolden(name)) << name;
  }
}

// A site reads the streams with the mix that the site before it made.
TEST(Pitfalls, N20_HyperConnectionsLagByOneSiteAndCombIsNotTransposed) {
  ExpectGolden(
      {"attn_in", "attn_comb", "streams_mid", "ffn_in", "ffn_comb", "streams_out", "mix_out"});
}

// --- Whole sequences ---

TinyRun ExactRun(int32_t n_context) {
  return TinyRun({.n_context = n_context, .arithmetic = Arithmetic::kExact});
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Follows its own choices from `logits` on, one token a step.
std::vector<float> Decode(TinyRun& run, int32_t seq, std::vector<float> logits, size_t n_steps) {
  std::vector<float> all;
  for (size_t step = 0; step < n_steps; ++step) {
    const std::vector<float> last(logits.end() - Tiny().info().n_vocab, logits.end());
    all.insert(all.end(), last.begin(), last.end());
    const TokenId next(ArgMax(last));
    if (step + 1 < n_steps) logits = run.Append(seq, {&next, 1});
  }
  return all;
}

// The official decoding scores layers 2 and 4 against the keys of layer 6 on every step that
// completes no pair (item 1), which half of these steps are.
TEST(Pitfalls, N01_DecodingScoresAgainstTheKeysOfItsOwnSource) {
  TinyRun run = ExactRun(128);
  const std::vector<float> prompt = run.Append(0, GoldenPrompt("prompt", 97));
  EXPECT_EQ(prompt, GoldenFloats("prefill97.logits"));
  EXPECT_EQ(Decode(run, 0, prompt, 16), GoldenFloats("greedy97.logits"));
}

// The tokens of the image are replaced by rows and flagged, wherever the prompt is cut.
std::vector<float> RunImagePrompt(size_t n, size_t n_piece) {
  const std::vector<TokenId> tokens = GoldenPrompt("image_prompt", n);
  std::vector<uint8_t> is_image;
  std::vector<int32_t> media_rows;
  int32_t n_media = 0;
  for (const TokenId token : tokens) {
    const bool belongs = token.value == Tiny().config().image_token_id;
    is_image.push_back(belongs ? 1 : 0);
    media_rows.push_back(belongs ? n_media++ : -1);
  }
  TinyRun run = ExactRun(64);
  std::vector<float> logits;
  for (size_t begin = 0; begin < n; begin += n_piece) {
    const size_t n_here = std::min(n_piece, n - begin);
    const Sequences::Part part{.tokens = std::span(tokens).subspan(begin, n_here),
                               .is_image = std::span(is_image).subspan(begin, n_here),
                               .media_rows = std::span(media_rows).subspan(begin, n_here),
                               .n_logits = static_cast<int32_t>(n_here)};
    const Result<Sequences::Outputs> out =
        run->Run({&part, 1}, {Golden("image60.rows").as<Bf16>(),
                              static_cast<size_t>(Golden("image60.rows").n_values())});
    SLUICE_CHECK(out.has_value());
    logits.insert(logits.end(), out->logits.begin(), out->logits.end());
  }
  return logits;
}

// The official code wants images in the first piece.
TEST(Pitfalls, N02_ImagesMayLieAnywhereAndBeCut) {
  const std::vector<float> wanted = GoldenFloats("image60.logits");
  for (const size_t n_piece : {60, 26, 7}) EXPECT_EQ(RunImagePrompt(60, n_piece), wanted);
}

// Nothing of an image sees what follows in it, as the rows of V4 did.
TEST(Pitfalls, N09_ImagesAreCausal) {
  const std::vector<float> wanted = GoldenFloats("image60.logits");
  for (const size_t n : {21, 26, 32}) {
    const std::vector<float> some = RunImagePrompt(n, n);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), wanted.begin())) << n;
  }
}

// Cut after the first decoder layer, the result would be a little different, and per piece of the
// prompt, different for each way of cutting it.
TEST(Pitfalls, N10_ATruncatedPromptEndsInsideTheFirstDecoderLayer) {
  for (const auto& [name, n_kept] :
       {std::pair("truncated97.logits", 16), {"truncated97_keep12more.logits", 28}}) {
    for (const size_t n_piece : {97, 40}) {
      const std::vector<TokenId> tokens = GoldenPrompt("prompt", 97);
      TinyRun run = ExactRun(128);
      std::vector<float> logits;
      for (size_t begin = 0; begin < tokens.size(); begin += n_piece) {
        const size_t n = std::min(n_piece, tokens.size() - begin);
        const auto end = static_cast<int32_t>(begin + n);
        const int32_t n_logits = std::clamp(end - (97 - n_kept), 0, static_cast<int32_t>(n));
        const Sequences::Outputs out = run.Run({{.tokens = std::span(tokens).subspan(begin, n),
                                                 .decoder_begin = 97 - n_kept,
                                                 .n_logits = n_logits}});
        logits.insert(logits.end(), out.logits.begin(), out.logits.end());
      }
      EXPECT_EQ(logits, GoldenFloats(name)) << n_piece;
    }
  }
}

// Positions beyond what YaRN was made for (64, and 256 with its factor), windows that began long
// ago. A longer prompt is not less exact than a short one, of which a perplexity that grows with
// the length would be the sign.
TEST(Pitfalls, N15_C78_LongPromptsAreAsExactAsShortOnes) {
  for (const size_t n : {1, 2, 16, 17, 18}) {
    TinyRun run = ExactRun(32);
    EXPECT_EQ(run.Append(0, GoldenPrompt("prompt", n)),
              GoldenFloats(fmt::format("prefill{}.logits", n)))
        << n;
  }
  TinyRun run = ExactRun(258);
  const std::vector<float> logits = run.Append(0, GoldenPrompt("prompt"));
  for (const int32_t n : {130, 190, 258}) {
    const std::vector<float> wanted = GoldenFloats(fmt::format("prefill{}.logits_last4", n));
    const int64_t first = int64_t{n - 4} * Tiny().info().n_vocab;
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), logits.begin() + first)) << n;
  }
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
