// The tiny golden model for tests: loaded once. Thread-compatible.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "env/posix/posix_env.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/packing.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/engram_tokens.h"
#include "model/sequences.h"
#include "tensor/stream.h"
#include "tensor/thread_team.h"

namespace sluice::model::deepseek_v41 {

inline std::string TinyFolder() { return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/tiny-a"; }

inline const Checkpoint& TinyCheckpoint() {
  static const Checkpoint& checkpoint = []() -> const Checkpoint& {
    static PosixEnv env;
    static Result<Checkpoint> opened = Checkpoint::Open(env.env().fs, TinyFolder());
    SLUICE_CHECK(opened.has_value());
    return *opened;
  }();
  return checkpoint;
}

inline Config TinyConfig() {
  Result<Config> config = Config::Parse(TinyCheckpoint().config_text());
  SLUICE_CHECK(config.has_value());
  return *config;
}

// `config` may differ from the checkpoint's in what the weights do not show: that is how tests make
// a mistake on purpose.
inline std::unique_ptr<DeepseekV41> MakeTiny(const Config& config) {
  PosixEnv env;
  Result<Weights> weights = Weights::Bind(TinyCheckpoint(), TinyConfig());
  SLUICE_CHECK(weights.has_value());
  Result<std::vector<int32_t>> classes = LoadTokenClasses(env.env().fs, TinyFolder(), TinyConfig());
  SLUICE_CHECK(classes.has_value());
  Packing packing(weights->ToPack(TinyConfig()));
  ThreadTeam team(1);
  while (!packing.done()) packing.Step(team);
  return std::make_unique<DeepseekV41>(DeepseekV41::Params{.config = config,
                                                           .weights = std::move(*weights),
                                                           .packed = packing.Take(),
                                                           .token_classes = std::move(*classes)});
}

inline DeepseekV41& Tiny() {
  static const std::unique_ptr<DeepseekV41> model = MakeTiny(TinyConfig());
  return *model;
}

// Tokens of no meaning, the same for the same seed.
inline std::vector<TokenId> SomeTokens(int32_t n, uint32_t seed = 1) {
  std::vector<TokenId> tokens;
  uint32_t state = seed * 2654435761U + 12345U;
  for (int32_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    // The image token (507) is left out.
    tokens.emplace_back(static_cast<int32_t>((state >> 8) % 500));
  }
  return tokens;
}

// A team, a stream and sequences on it.
class TinyRun {
 public:
  struct Options {
    int32_t n_seqs = 2;
    int32_t n_context = 384;
    int32_t n_threads = 1;
    Arithmetic arithmetic = Arithmetic::kFloat32;
    DeepseekV41* model = nullptr;
  };
  TinyRun() : TinyRun(Options()) {}
  explicit TinyRun(const Options& options)
      : team_(options.n_threads),
        stream_{.team = team_, .arithmetic = options.arithmetic},
        sequences_(Open(options, stream_)) {}

  Sequences& operator*() { return sequences_; }
  Sequences* operator->() { return &sequences_; }

  Sequences::Outputs Run(const std::vector<Sequences::Part>& parts) {
    Result<Sequences::Outputs> out = sequences_.Run(parts);
    SLUICE_CHECK(out.has_value());
    return std::move(*out);
  }
  // Logits of every new token.
  std::vector<float> Append(int32_t seq, std::span<const TokenId> tokens) {
    return Run({{.seq = seq, .tokens = tokens, .n_logits = static_cast<int32_t>(tokens.size())}})
        .logits;
  }
  // The same in pieces.
  std::vector<float> AppendIn(int32_t n_piece, int32_t seq, std::span<const TokenId> tokens) {
    std::vector<float> logits;
    while (!tokens.empty()) {
      const size_t n = std::min(static_cast<size_t>(n_piece), tokens.size());
      const std::vector<float> some = Append(seq, tokens.first(n));
      logits.insert(logits.end(), some.begin(), some.end());
      tokens = tokens.subspan(n);
    }
    return logits;
  }

 private:
  static Sequences Open(const Options& options, Stream& stream) {
    DeepseekV41& model = options.model != nullptr ? *options.model : Tiny();
    Result<Sequences> opened = Sequences::Open(model, stream,
                                               {.n_seqs = options.n_seqs,
                                                .n_context = options.n_context,
                                                .n_rows = 2 * options.n_context,
                                                .n_logits = 2 * options.n_context});
    SLUICE_CHECK(opened.has_value());
    return std::move(*opened);
  }

  ThreadTeam team_;
  Stream stream_;
  Sequences sequences_;
};

}  // namespace sluice::model::deepseek_v41
