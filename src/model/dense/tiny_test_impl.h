// The tiny dense models of tests/golden/dense, loaded, for tests. Each test has its own and uses it
// from one thread.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "env/posix/posix_env.h"
#include "model/loader.h"
#include "model/sequences.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::model::dense {

inline std::string GoldenFolder() { return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/dense"; }

// Names of models, of their folders or files, and of their tensors in the golden file.
inline constexpr const char* kTinyModels[] = {"llama", "llama.gguf", "qwen2"};

// n_tokens: of a tokenizer, 0: none.
inline LoadedModel LoadTiny(const std::string& name, int32_t n_tokens = 0) {
  PosixEnv env;
  Result<Loader> loader = Loader::Open(env.env().fs, GoldenFolder() + "/" + name);
  if (!loader) CheckFailed(std::string(loader.error().message()).c_str(), __FILE__, __LINE__);
  if (n_tokens > 0) SLUICE_CHECK(loader->KeepTokens(n_tokens).ok());
  ThreadTeam team(2);
  while (!loader->done()) SLUICE_CHECK(loader->Step(team).ok());
  return loader->Take();
}

inline const harness::GoldenTensor& Golden(const std::string& name) {
  static const harness::GoldenFile file(GoldenFolder() + "/golden.safetensors");
  return file[name];
}

inline std::vector<float> GoldenFloats(const std::string& name) {
  const harness::GoldenTensor& tensor = Golden(name);
  return {tensor.as<float>(), tensor.as<float>() + tensor.n_values()};
}

inline std::vector<TokenId> GoldenTokens(const std::string& model) {
  const harness::GoldenTensor& tensor = Golden(model + ".tokens");
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < tensor.n_values(); ++i) tokens.emplace_back(tensor.as<int32_t>()[i]);
  return tokens;
}

// A loaded model with threads and room for a few sequences.
struct Tiny {
  explicit Tiny(const std::string& name, int32_t n_threads = 1, int32_t n_tokens = 0)
      : loaded(LoadTiny(name, n_tokens)), team(n_threads), stream{.team = team} {
    Result<Sequences> opened = Sequences::Open(
        *loaded.model, stream, {.n_seqs = 4, .n_context = 400, .n_rows = 512, .n_logits = 512});
    SLUICE_CHECK(opened.has_value());
    sequences = std::make_unique<Sequences>(std::move(*opened));
  }

  // Appends tokens; logits of the last n_logits.
  std::vector<float> Append(int32_t seq, std::span<const TokenId> tokens, int32_t n_logits) {
    const Sequences::Part part{.seq = seq, .tokens = tokens, .n_logits = n_logits};
    Result<Sequences::Outputs> out = sequences->Run({&part, 1});
    SLUICE_CHECK(out.has_value());
    return std::move(out->logits);
  }

  LoadedModel loaded;
  ThreadTeam team;
  Stream stream;
  std::unique_ptr<Sequences> sequences;
};

}  // namespace sluice::model::dense
