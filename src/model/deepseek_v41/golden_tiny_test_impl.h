// The goldens of tiny-a for tests, and single layers of it run on golden inputs, so that a test
// fails when its own layer is wrong and not when an earlier one is. Exact arithmetic: all bits
// count. Each test has its own and uses it from one thread.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/deepseek_v41/step_impl.h"
#include "model/deepseek_v41/tiny_test_impl.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::model::deepseek_v41 {

inline const harness::GoldenTensor& Golden(const std::string& name) {
  static const harness::GoldenFile file(TinyFolder() + "/golden.safetensors");
  return file[name];
}

inline std::vector<float> GoldenFloats(const std::string& name) {
  const harness::GoldenTensor& tensor = Golden(name);
  return {tensor.as<float>(), tensor.as<float>() + tensor.n_values()};
}

// "prompt" or "image_prompt", to the last token or up to the n-th.
inline std::vector<TokenId> GoldenPrompt(const std::string& name, size_t n = 0) {
  static const nlohmann::json tokens =
      nlohmann::json::parse(std::ifstream(TinyFolder() + "/tokens.json"));
  const std::vector<int32_t> ids = tokens.at(name);
  std::vector<TokenId> prompt;
  for (size_t i = 0; i < (n == 0 ? ids.size() : n); ++i) prompt.emplace_back(ids.at(i));
  return prompt;
}

// What a trace noted last, by layer and name ("2.q").
struct Notes {
  std::map<std::string, std::vector<uint8_t>> tensors;

  Trace trace() { return {.context = this, .note = &Note}; }
  static void Note(void* context, const TraceTensor& tensor) {
    size_t n_bytes = static_cast<size_t>(SizeOf(tensor.dtype));
    for (const int64_t n : tensor.shape) n_bytes *= static_cast<size_t>(n);
    const auto* bytes = static_cast<const uint8_t*>(tensor.data);
    const std::string name = fmt::format("{}.{}", tensor.layer, tensor.name);
    static_cast<Notes*>(context)->tensors[name].assign(bytes, bytes + n_bytes);
  }
};

// One layer of the golden prompt of 97 tokens. The golden set has the layers 1, 2, 6 and 8.
class FedLayer {
 public:
  static constexpr int32_t kRows = 97;
  static constexpr int32_t kStreamValues = 4 * 128;

  // `model`: tiny-a or one that differs on purpose.
  explicit FedLayer(int32_t layer, const DeepseekV41& model = Tiny())
      : layer_(layer), model_(model) {
    const BatchLimits limits{.n_rows = kRows, .n_seqs = 1, .n_context = kRows};
    Buffer memory(model.WorkspaceBytes(limits));
    Arena arena({memory.data(), static_cast<size_t>(memory.size())});
    const Scratch scratch(arena, model.config(), limits);
    TinyRun run({.n_seqs = 1, .n_context = kRows});
    FeedSource(*run);
    std::vector<Row> rows;
    for (const TokenId token : GoldenPrompt("prompt", kRows)) {
      rows.push_back({.token = token, .pos = static_cast<int32_t>(rows.size())});
    }
    const SeqView view{
        .blocks = run->blocks(0), .slot = run->slot(0), .n_rows = kRows, .history = {}};
    const StepBatch batch{.rows = rows, .seqs = {&view, 1}};
    ThreadTeam team(1);
    Stream stream{.team = team, .arithmetic = Arithmetic::kExact};
    const Workspace workspace{.stream = stream, .memory = run->memory(), .scratch = {}};
    const Trace trace = notes_.trace();
    const StepOutputs out{.trace = &trace};
    Step step(model, batch, workspace, out, scratch);
    if (const auto& engram = model.weights().layers[static_cast<size_t>(layer)].engram) {
      Feed(fmt::format("prefill97.layer.{}.streams_out", layer - 1), scratch.streams);
      step.Engram(layer, *engram);
      const auto streams = std::as_bytes(scratch.streams.first(kRows * kStreamValues));
      const auto* bytes = reinterpret_cast<const uint8_t*>(streams.data());
      notes_.tensors[fmt::format("{}.engram_out", layer)].assign(bytes, bytes + streams.size());
    }
    Feed(NameOf("streams_in"), scratch.streams);
    Feed(NameOf("mix_in"), scratch.mix);
    if (model.config().IsIndexSource(layer) && layer > model.config().candidate_source_layer_id) {
      FeedCandidates(scratch);
    }
    step.RunBlock(layer);
  }

  const std::vector<uint8_t>& operator[](const std::string& name) const {
    const auto found = notes_.tensors.find(fmt::format("{}.{}", layer_, name));
    SLUICE_CHECK(found != notes_.tensors.end());
    return found->second;
  }
  // "engram_out": the streams behind Engram, which are those that enter the block. Stored rows
  // ("key_rows") are held against the golden's codes and scales.
  bool IsGolden(std::string_view name) const {
    const std::string own(name);
    if (own == "engram_out") return (*this)[own] == Golden(NameOf("streams_in")).bytes;
    if (!own.ends_with("_rows") || own == "engram_rows") {
      return (*this)[own] == Golden(NameOf(own)).bytes;
    }
    return (*this)[own] == GoldenRows(layer_, own.substr(0, own.size() - std::strlen("_rows")));
  }

 private:
  std::string NameOf(const std::string& name) const {
    return fmt::format("prefill97.layer.{}.{}", layer_, name);
  }
  static std::vector<uint8_t> GoldenRows(int32_t layer, const std::string& name) {
    const std::string prefix = fmt::format("prefill97.layer.{}.{}", layer, name);
    const harness::GoldenTensor& codes = Golden(prefix + "_codes");
    const harness::GoldenTensor& scales = Golden(prefix + "_scales");
    const int64_t code_bytes = codes.shape.back();
    const int64_t scale_bytes = scales.shape.back();
    std::vector<uint8_t> rows;
    for (int64_t row = 0; row < codes.n_values() / code_bytes; ++row) {
      const uint8_t* from = codes.as<uint8_t>() + row * code_bytes;
      rows.insert(rows.end(), from, from + code_bytes);
      from = scales.as<uint8_t>() + row * scale_bytes;
      rows.insert(rows.end(), from, from + scale_bytes);
    }
    return rows;
  }

  template <typename Span>
  static void Feed(const std::string& name, Span into) {
    const harness::GoldenTensor& tensor = Golden(name);
    SLUICE_CHECK(tensor.bytes.size() <= into.size_bytes());
    std::memcpy(into.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  // Entries and keys that another layer wrote.
  void FeedSource(Sequences& sequences) const {
    const int32_t source = model_.config().KvSource(layer_);
    if (source < 0 || source == layer_) return;
    const auto s = static_cast<size_t>(source);
    const auto write = [&](const std::string& name, int32_t component) {
      const std::vector<uint8_t> rows = GoldenRows(source, name);
      const size_t row_bytes = rows.size() / kRows;  // ratio 1: an entry per position
      for (size_t row = 0; row < kRows; ++row) {
        std::memcpy(
            sequences.memory().Row(component, sequences.blocks(0), static_cast<int64_t>(row)),
            rows.data() + row * row_bytes, row_bytes);
      }
    };
    write("entry", model_.state().entries[s]);
    write("key", model_.state().keys[s]);
  }
  // The golden has the entries inside the kept blocks as a mask.
  void FeedCandidates(const Scratch& scratch) const {
    const Config& c = model_.config();
    const harness::GoldenTensor& mask =
        Golden(fmt::format("prefill97.layer.{}.candidates", c.candidate_source_layer_id));
    std::fill(scratch.candidates.begin(), scratch.candidates.end(), -1);
    for (int32_t row = 0; row < kRows; ++row) {
      int32_t* blocks = scratch.candidates.data() + row * c.candidate_topk_blocks;
      for (int32_t entry = 0; entry < kRows; entry += c.candidate_block_size) {
        if (mask.bytes[static_cast<size_t>(row * kRows + entry)] == 0) continue;
        *blocks++ = entry / c.candidate_block_size;
      }
    }
  }

  const int32_t layer_;
  const DeepseekV41& model_;
  Notes notes_;
};

}  // namespace sluice::model::deepseek_v41
