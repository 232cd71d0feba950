// The tiny models of tests/golden, one or more of each family, for tests that hold for every model;
// and one of any size, whose path is in SLUICE_TEST_MODEL. Thread-compatible.

#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "env/posix/posix_env.h"
#include "model/loader.h"
#include "model/sequences.h"
#include "tensor/thread_team.h"

namespace sluice::engine {

struct TinyModel {
  std::string name;  // of tests: letters and digits
  std::string path;
  int32_t n_ids;         // tokens that have no special meaning are below this
  bool is_slow = false;  // all else being equal: in the slow suite only
  int n_requests = 200;  // of the slow suite
};

inline std::vector<TinyModel> TinyModels() {
  const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";
  std::vector<TinyModel> models = {
      {.name = "tinyA", .path = golden + "tiny-a", .n_ids = 500},  // 507 is the image token
      {.name = "llamaGguf", .path = golden + "dense/llama.gguf", .n_ids = 131},
      {.name = "llama", .path = golden + "dense/llama", .n_ids = 131},
      {.name = "qwen2", .path = golden + "dense/qwen2", .n_ids = 203},
  };
  if (const char* path = std::getenv("SLUICE_TEST_MODEL"); path != nullptr) {
    models.push_back(
        {.name = "given", .path = path, .n_ids = 500, .is_slow = true, .n_requests = 6});
  }
  return models;
}

inline model::LoadedModel Load(const TinyModel& tiny) {
  const PosixEnv posix;
  Result<model::Loader> loader = model::Loader::Open(posix.env().fs, tiny.path);
  if (!loader) CheckFailed(std::string(loader.error().message()).c_str(), __FILE__, __LINE__);
  ThreadTeam team(2);
  while (!loader->done()) SLUICE_CHECK(loader->Step(team).ok());
  return loader->Take();
}

// One of each, for reading.
inline model::Model& Shared(const TinyModel& tiny) {
  static std::map<std::string, model::LoadedModel> loaded;
  auto at = loaded.find(tiny.name);
  if (at == loaded.end()) at = loaded.emplace(tiny.name, Load(tiny)).first;
  return *at->second.model;
}

// Tokens of no meaning, the same for the same seed.
inline std::vector<TokenId> SomeTokens(const TinyModel& tiny, int32_t n, uint32_t seed = 1) {
  std::vector<TokenId> tokens;
  uint32_t state = seed * 2654435761U + 12345U;
  for (int32_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    tokens.emplace_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(tiny.n_ids)));
  }
  return tokens;
}

// One sequence on memory of its own, without an engine.
class OneSequence {
 public:
  OneSequence(const TinyModel& tiny, int32_t n_context)
      : team_(1), stream_{.team = team_}, sequences_(Open(tiny, stream_, n_context)) {}

  int32_t length() const { return sequences_.length(0); }
  // Logits of the last n_logits of these tokens.
  std::vector<float> Append(std::span<const TokenId> tokens,
                            int32_t decoder_begin,
                            int32_t n_logits) {
    const model::Sequences::Part part{
        .tokens = tokens, .decoder_begin = decoder_begin, .n_logits = n_logits};
    Result<model::Sequences::Outputs> out = sequences_.Run({&part, 1});
    SLUICE_CHECK(out.has_value());
    return std::move(out->logits);
  }

 private:
  static model::Sequences Open(const TinyModel& tiny, Stream& stream, int32_t n_context) {
    Result<model::Sequences> opened = model::Sequences::Open(
        Shared(tiny), stream,
        {.n_seqs = 1, .n_context = n_context, .n_rows = n_context, .n_logits = n_context});
    SLUICE_CHECK(opened.has_value());
    return std::move(*opened);
  }

  ThreadTeam team_;
  Stream stream_;
  model::Sequences sequences_;
};

}  // namespace sluice::engine
