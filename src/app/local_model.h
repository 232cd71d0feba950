// A model run inside a command, without a server: opened with progress on stderr. Owned by the
// command's thread.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/compute_options.h"
#include "base/ids.h"
#include "base/result.h"
#include "env/env.h"
#include "model/loader.h"
#include "model/sequences.h"
#include "tensor/stream.h"

namespace sluice::app {

class LocalModel {
 public:
  // n_tokens: of the tokenizer, if one is used (Loader::KeepTokens).
  static Result<std::unique_ptr<LocalModel>> Open(Env& env,
                                                  std::string_view folder,
                                                  const ComputeOptions& options,
                                                  std::optional<int32_t> n_tokens = std::nullopt);

  model::Model& model() { return *loaded_.model; }
  Stream& stream() { return stream_; }

 private:
  LocalModel(model::LoadedModel loaded, const ComputeOptions& options, IsaChoice isas);

  model::LoadedModel loaded_;
  ThreadTeam team_;
  Stream stream_;
};

// Tokens of a prompt that go through the model at once.
inline constexpr int32_t kChunkTokens = 512;

// Appends the next chunk of a prompt to sequence 0 and takes it off `rest`. Logits of those of its
// tokens that are among the prompt's last n_logits, [.., n_vocab].
Result<std::vector<float>> RunChunk(model::Sequences& sequences,
                                    std::span<const TokenId>& rest,
                                    int32_t n_logits);

// A JSON list of token ids, at least one, each below n_vocab.
Result<std::vector<TokenId>> ReadTokenFile(FileSystem& fs, std::string_view path, int32_t n_vocab);

}  // namespace sluice::app
