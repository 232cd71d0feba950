// The pitfalls of spec model.md §7 that concern state between steps, prefix hits and the
// checkpoint; the others are in pitfalls_test.cc. PITFALLS.md lists them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "model/checkpoint/model_folder_test_impl.h"
#include "model/deepseek_v41/golden_tiny_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr int32_t kWindow = 16;
constexpr uint8_t kPoison = 0x7F;  // of E4M3, NaN; as a scale, 1

TinyRun ExactRun(int32_t n_context) {
  return TinyRun({.n_context = n_context, .arithmetic = Arithmetic::kExact});
}

int64_t RingRowBytes() { return RowBytes(GroupFormat::kFp8, Tiny().config().head_dim); }

std::span<uint8_t> Ring(Sequences& sequences, int32_t seq, int32_t layer) {
  return sequences.memory().Slot(Tiny().state().windows[static_cast<size_t>(layer)],
                                 sequences.slot(seq));
}

std::vector<uint8_t> RingRow(Sequences& sequences, int32_t seq, int32_t layer, int32_t position) {
  const auto n = static_cast<size_t>(RingRowBytes());
  const auto place = static_cast<size_t>(position % RingRows(Tiny().config()));
  const std::span<uint8_t> row = Ring(sequences, seq, layer).subspan(place * n, n);
  return {row.begin(), row.end()};
}

// Whoever reads this row has NaN in its result.
void Poison(Sequences& sequences, int32_t seq, int32_t position) {
  const auto n = static_cast<size_t>(RingRowBytes());
  const auto place = static_cast<size_t>(position % RingRows(Tiny().config()));
  for (int32_t layer = 0; layer < Tiny().info().n_layers; ++layer) {
    std::ranges::fill(Ring(sequences, seq, layer).subspan(place * n, n), kPoison);
  }
}
void PoisonAll(Sequences& sequences, int32_t seq) {
  for (int32_t place = 0; place < RingRows(Tiny().config()); ++place) Poison(sequences, seq, place);
}

bool AllFinite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// N-grams reach three tokens back, over the edges of steps and of replays.
TEST(Pitfalls, N24_TheEngramHistoryReachesAcrossChunksAndHits) {
  const std::vector<TokenId> tokens = GoldenPrompt("prompt", 97);
  const std::vector<uint8_t>& wanted = Golden("prefill97.layer.1.engram_rows").bytes;
  const size_t row_bytes = wanted.size() / 97;
  for (const size_t n_piece : {1, 2, 5, 40}) {
    TinyRun run;
    std::vector<uint8_t> rows;
    for (size_t begin = 0; begin < 97; begin += n_piece) {
      Notes notes;
      const Trace trace = notes.trace();
      const Sequences::Part part{
          .tokens = std::span(tokens).subspan(begin, std::min(n_piece, 97 - begin))};
      ASSERT_TRUE(run->Run({&part, 1}, {}, &trace).has_value());
      std::ranges::copy(notes.tensors.at("1.engram_rows"), std::back_inserter(rows));
    }
    EXPECT_TRUE(rows == wanted) << n_piece;
  }
  TinyRun run;
  run.Append(0, tokens);
  for (const int32_t hit : {64, 65, 96}) {
    run->ImportPrefix(1, run->ExportPrefix(0, hit));
    Notes notes;
    const Trace trace = notes.trace();
    const Sequences::Part part{.seq = 1,
                               .tokens = std::span(tokens).subspan(static_cast<size_t>(hit)),
                               .n_replay = kWindow};
    ASSERT_TRUE(run->Run({&part, 1}, {}, &trace).has_value());
    const std::vector<uint8_t>& rows = notes.tensors.at("1.engram_rows");
    EXPECT_TRUE(std::ranges::equal(
        rows, std::span(wanted).subspan(static_cast<size_t>(hit - kWindow) * row_bytes)))
        << hit;
  }
}

// Padded with something else, it would rehash quietly.
TEST(Pitfalls, N24_ATooShortEngramHistoryIsRefused) {
  TinyRun run;
  run.Append(0, GoldenPrompt("prompt", 40));
  const Row row{.token = TokenId(5), .pos = 40};
  const std::vector<TokenId> before(3, TokenId(7));
  const auto check = [&](size_t n_history, int32_t pos) {
    Row moved = row;
    moved.pos = pos;
    const SeqView view{.blocks = run->blocks(0),
                       .slot = run->slot(0),
                       .n_rows = 1,
                       .history = std::span(before).first(n_history)};
    return Tiny().Check({.rows = {&moved, 1}, .seqs = {&view, 1}},
                        {.n_rows = 1, .n_seqs = 1, .n_context = 64});
  };
  EXPECT_TRUE(check(3, 40).ok());
  EXPECT_TRUE(check(1, 1).ok());  // there is no more
  const Status refused = check(2, 40);
  EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("history has 2 tokens, not 3"), std::string::npos)
      << refused.message();
}

// Two bugs of others were right at hits on multiples of the window: a mask made of positions that
// was compared with numbers of rows, and ring places that did not count from the start.
TEST(Pitfalls, N25_ReplayEqualsItsGoldensAtAnyOffset) {
  for (const auto& [hit, n_new] : {std::pair(64, 40), {97, 40}, {100, 5}}) {
    const std::string prefix = fmt::format("replay.hit{}.new{}.", hit, n_new);
    const int32_t n = hit + n_new;
    const std::vector<TokenId> tokens = GoldenPrompt("prompt", static_cast<size_t>(n));
    TinyRun run = ExactRun(n + 8);
    run.Append(0, std::span(tokens).first(static_cast<size_t>(hit)));
    run->ImportPrefix(1, run->ExportPrefix(0, hit));
    PoisonAll(*run, 1);
    std::vector<float> logits =
        run.Run({{.seq = 1,
                  .tokens = std::span(tokens).subspan(static_cast<size_t>(hit)),
                  .n_replay = kWindow,
                  .decoder_begin = n - kWindow,
                  .n_logits = kWindow}})
            .logits;
    EXPECT_EQ(logits, GoldenFloats(prefix + "logits"));
    // Decoding on reads what replay and the new rows left in the rings.
    const harness::GoldenTensor& greedy = Golden(prefix + "greedy_tokens");
    std::vector<float> decoded(logits.end() - Tiny().info().n_vocab, logits.end());
    for (int64_t i = 0; i + 1 < greedy.n_values(); ++i) {
      const TokenId next(greedy.as<int32_t>()[i]);
      std::ranges::copy(run.Append(1, {&next, 1}), std::back_inserter(decoded));
    }
    EXPECT_EQ(decoded, GoldenFloats(prefix + "greedy_logits"));
  }
}

// The rows of layer 0 depend on token and position alone, so replay must rebuild them to the bit,
// each in its place.
TEST(Pitfalls, N25_ReplayedRowsLieWhereTheirPositionsBelong) {
  const std::vector<TokenId> tokens = GoldenPrompt("prompt");
  TinyRun run;
  int32_t done = 0;
  for (const int32_t hit : {17, 30, 33, 64, 97, 100, 130, 190, 241}) {
    const auto upto = std::span(tokens).first(static_cast<size_t>(hit) + 1);
    run.Append(0, upto.subspan(static_cast<size_t>(done)));
    done = hit + 1;
    run->ImportPrefix(1, run->ExportPrefix(0, hit));
    PoisonAll(*run, 1);
    const std::vector<float> logits =
        run.Run({{.seq = 1, .tokens = upto.last(1), .n_replay = kWindow, .n_logits = 1}}).logits;
    EXPECT_TRUE(AllFinite(logits)) << hit;  // no row before the replay was read
    for (int32_t pos = hit - kWindow; pos <= hit; ++pos) {
      EXPECT_EQ(RingRow(*run, 1, 0, pos), RingRow(*run, 0, 0, pos)) << hit << ' ' << pos;
    }
  }
}

// A row at H sees H - 15 to H here: going on needs the 15 rows before it, a replay 16, because its
// own last row, H - 1, needs H - 16.
TEST(Pitfalls, N26_GoingOnReadsOneRowLessThanReplayRebuilds) {
  constexpr int32_t kHit = 97;
  const std::vector<TokenId> tokens = GoldenPrompt("prompt", kHit + 1);
  TinyRun run;
  run.Append(0, std::span(tokens).first(kHit));
  run->Copy(0, 1);
  const std::vector<float> wanted = run.Append(0, std::span(tokens).last(1));
  Poison(*run, 1, kHit - kWindow);
  EXPECT_EQ(run.Append(1, std::span(tokens).last(1)), wanted);
  run->RollBack(1, kHit);
  Poison(*run, 1, kHit - kWindow + 1);
  EXPECT_FALSE(AllFinite(run.Append(1, std::span(tokens).last(1))));

  const auto replayed = [&](int32_t n_replay) {
    TinyRun exact = ExactRun(kHit + 40);
    const std::vector<TokenId> all = GoldenPrompt("prompt", kHit + 40);
    exact.Append(0, std::span(all).first(kHit));
    exact->ImportPrefix(1, exact->ExportPrefix(0, kHit));
    return exact
        .Run({{.seq = 1,
               .tokens = std::span(all).last(40),
               .n_replay = n_replay,
               .decoder_begin = kHit + 40 - kWindow,
               .n_logits = kWindow}})
        .logits;
  };
  const std::vector<float> golden = GoldenFloats("replay.hit97.new40.logits");
  EXPECT_EQ(replayed(kWindow), golden);
  EXPECT_NE(replayed(kWindow - 1), golden);
  EXPECT_NE(replayed(kWindow + 1), golden);
}

// A ring keeps more rows than the window, for rows that are taken back; those that replay did not
// rebuild are nobody's, even when the sequence goes back to the hit.
TEST(Pitfalls, N27_RowsThatReplayDidNotRebuildAreNeverRead) {
  constexpr int32_t kHit = 100;
  const std::vector<TokenId> tokens = GoldenPrompt("prompt", 120);
  const auto rest = std::span(tokens).subspan(kHit);
  const auto go_on = [&](bool with_rejected_rows) {
    TinyRun run;
    run.Append(0, std::span(tokens).first(kHit));
    run->ImportPrefix(1, run->ExportPrefix(0, kHit));
    PoisonAll(*run, 1);
    const std::vector<TokenId> wrong = SomeTokens(12, 70);
    const auto first = with_rejected_rows ? std::span(wrong) : rest.first(1);
    run.Run({{.seq = 1, .tokens = first, .n_replay = kWindow}});
    run->RollBack(1, kHit);
    return run.Append(1, rest);
  };
  const std::vector<float> wanted = go_on(false);
  EXPECT_TRUE(AllFinite(wanted));
  EXPECT_EQ(go_on(true), wanted);
}

// --- The checkpoint ---

// Where the tensors of a bound model begin.
class Places {
 public:
  explicit Places(const Weights& w) {
    Add(w.embed);
    Add(w.head);
    AddAll({w.norm, w.image_start, w.image_end, w.image_newline});
    for (const LayerWeights& layer : w.layers) Add(layer);
    if (!w.draft) return;
    for (const Matrix& m :
         {w.draft->main_proj, w.draft->markov_embed, w.draft->markov_head, w.draft->confidence}) {
      Add(m);
    }
    AddAll({w.draft->main_norm, w.draft->norm});
    for (const LayerWeights& stage : w.draft->stages) Add(stage);
  }

  std::vector<const void*> sorted() const {
    std::vector<const void*> places = places_;
    std::ranges::sort(places);
    return places;
  }

 private:
  void AddAll(std::initializer_list<const void*> places) {
    for (const void* place : places) {
      if (place != nullptr) places_.push_back(place);
    }
  }
  void Add(const Matrix& matrix) { AddAll({matrix.data, matrix.scales}); }
  void Add(const ops::moe_ffn::Expert& expert) {
    for (const Matrix& m : {expert.w1, expert.w2, expert.w3}) Add(m);
  }
  void Add(const HyperWeights& hyper) {
    Add(hyper.fn);
    AddAll({hyper.base, hyper.scale});
  }
  void Add(const LayerWeights& layer) {
    const AttentionWeights& a = layer.attn;
    AddAll({layer.attn_norm, layer.ffn_norm, a.sink, a.q_norm, a.kv_norm});
    for (const Matrix& m : {a.wq_a, a.wq_b, a.wkv, a.wo_a, a.wo_b}) Add(m);
    Add(layer.hc_attn);
    Add(layer.hc_ffn);
    Add(layer.ffn.gate);
    AddAll({layer.ffn.bias, layer.ffn.bias_vl});
    for (const ops::moe_ffn::Expert& expert : layer.ffn.experts) Add(expert);
    Add(layer.ffn.shared);
    if (const auto& c = layer.compressor) {
      for (const Matrix& m : {c->wkv, c->wgate, c->index_wk}) Add(m);
      AddAll({c->norm, c->index_k_norm});
    }
    if (const auto& index = layer.index) {
      Add(index->weights_proj);
      Add(index->wq_b);
    }
    if (const auto& e = layer.engram) {
      AddAll({e->codes, e->scales, e->q_weight, e->k_weight});
      Add(e->wkv);
    }
  }

  std::vector<const void*> places_;
};

// A scale left at zero gives fluent nonsense. Missing and unknown names: weights_test.cc.
TEST(Pitfalls, C74_EveryTensorIsUsedExactlyOnce) {
  const Checkpoint& checkpoint = TinyCheckpoint();
  std::vector<const void*> stored;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    stored.push_back(checkpoint.View(tensor).bytes.data());
  }
  std::ranges::sort(stored);
  EXPECT_EQ(stored.size(), 1800u);
  const Result<Weights> weights = Weights::Bind(checkpoint, TinyConfig());
  ASSERT_TRUE(weights.has_value());
  EXPECT_TRUE(Places(*weights).sorted() == stored);
}

// Read without its scale, a weight would be three thousand times too large. tiny-a with one scale
// under another name, as other writers have it.
TEST(Pitfalls, C75_AnFp8OrFp4WeightWithoutItsScaleIsRefused) {
  std::ifstream file(TinyFolder() + "/model.safetensors", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  for (const std::string name : {"layers.3.attn.wkv.scale", "layers.5.ffn.experts.2.w2.scale",
                                 "layers.4.engram.embed.scale", "mtp.0.main_proj.scale"}) {
    std::string text = whole;
    const size_t at = text.find("\"" + name + "\"");
    ASSERT_NE(at, std::string::npos) << name;
    text[at + name.size()] = 's';  // "...scals"
    const ModelFolder folder;
    folder.Write("config.json", TinyCheckpoint().config_text());
    folder.Write("model.safetensors", text);
    PosixEnv posix;
    const Result<Checkpoint> checkpoint = Checkpoint::Open(posix.env().fs, folder.path());
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
    const Result<Weights> weights = Weights::Bind(*checkpoint, TinyConfig());
    ASSERT_FALSE(weights.has_value()) << name;
    EXPECT_NE(weights.error().message().find(name), std::string::npos) << weights.error().message();
  }
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
