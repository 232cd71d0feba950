// One layer at a time in float32: inputs and the state of other layers come from the goldens, so
// that a last bit which flipped in one layer does not hide what the next one does.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "conformance/runs.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::conformance {
namespace {

namespace v41 = model::deepseek_v41;

std::string Layer(int32_t n, int32_t layer) { return fmt::format("prefill{}.layer.{}.", n, layer); }

// The kept blocks of each row, from the golden's mask of entries.
std::vector<int32_t> BlocksOf(const Tensor& mask, const v41::Config& c) {
  const int64_t n = mask.n_rows();
  std::vector<int32_t> blocks(static_cast<size_t>(n * c.candidate_topk_blocks), -1);
  for (int64_t row = 0; row < n; ++row) {
    int64_t n_blocks = 0;
    for (int64_t entry = 0; entry < n; entry += c.candidate_block_size) {
      if (mask.bytes[static_cast<size_t>(row * n + entry)] == 0) continue;
      blocks[static_cast<size_t>(row * c.candidate_topk_blocks + n_blocks)] =
          static_cast<int32_t>(entry / c.candidate_block_size);
      ++n_blocks;
    }
  }
  return blocks;
}

}  // namespace

void Runs::FeedLayers(int32_t n) {
  for (int32_t layer = 0; layer < golden_.model->config().num_hidden_layers; ++layer) {
    if (golden_.has(Layer(n, layer) + "streams_in")) FeedLayer(n, layer);
  }
}

void Runs::FeedLayer(int32_t n, int32_t layer) {
  const v41::DeepseekV41& model = *golden_.model;
  const v41::Config& c = model.config();
  model::Sequences sequences = Open(1, n);
  FeedState(n, layer, sequences);
  std::vector<model::Row> rows;
  for (int32_t pos = 0; pos < n; ++pos) {
    rows.push_back({.token = golden_.prompt[static_cast<size_t>(pos)], .pos = pos});
  }
  const model::SeqView view{.blocks = sequences.blocks(0),
                            .slot = sequences.slot(0),
                            .first_row = 0,
                            .n_rows = n,
                            .history = {}};
  const model::BatchLimits limits{.n_rows = n, .n_seqs = 1, .n_context = n};
  Buffer memory(model.WorkspaceBytes(limits));
  Arena arena({memory.data(), static_cast<size_t>(memory.size())});
  const v41::Scratch scratch(arena, c, limits);
  Sink sink{.runs = this, .prefix = fmt::format("prefill{}.", n)};
  const model::Trace trace{.context = &sink, .note = &NoteInto};
  const model::StepBatch batch{.rows = rows, .seqs = {&view, 1}};
  const model::Workspace workspace{.stream = stream_, .memory = sequences.memory(), .scratch = {}};
  const model::StepOutputs out{.trace = &trace};
  v41::Step step(model, batch, workspace, out, scratch);

  const auto feed = [&](const std::string& name, auto into) {
    const auto at = golden_.tensors.find(name);
    SLUICE_CHECK(at != golden_.tensors.end() && at->second.bytes.size() <= into.size_bytes());
    std::memcpy(into.data(), at->second.bytes.data(), at->second.bytes.size());
  };
  const v41::LayerWeights& weights = model.weights().layers[static_cast<size_t>(layer)];
  if (weights.engram && golden_.has(Layer(n, layer - 1) + "streams_out")) {
    feed(Layer(n, layer - 1) + "streams_out", scratch.streams);
    step.Engram(layer, *weights.engram);
  }
  feed(Layer(n, layer) + "streams_in", scratch.streams);
  feed(Layer(n, layer) + "mix_in", scratch.mix);
  if (c.ratio(layer) != 0 && !c.IsIndexSource(layer)) {
    feed(Layer(n, c.IndexSource(layer)) + "selected", scratch.chosen);
  }
  if (layer > c.candidate_source_layer_id && c.IsIndexSource(layer)) {
    const std::vector<int32_t> blocks =
        BlocksOf(golden_.tensors.at(Layer(n, c.candidate_source_layer_id) + "candidates"), c);
    std::copy(blocks.begin(), blocks.end(), scratch.candidates.begin());
  }
  step.RunBlock(layer);
}

// Entries and keys of the layer's source, unless it is its own.
void Runs::FeedState(int32_t n, int32_t layer, model::Sequences& sequences) {
  const v41::Config& c = golden_.model->config();
  const int32_t source = c.KvSource(layer);
  if (source < 0 || source == layer) return;
  const auto s = static_cast<size_t>(source);
  const auto write = [&](const std::string& name, int32_t component) {
    const Tensor& codes = golden_.tensors.at(Layer(n, source) + name + "_codes");
    const Tensor& scales = golden_.tensors.at(Layer(n, source) + name + "_scales");
    const auto code_bytes = static_cast<size_t>(codes.shape[1]);
    const auto scale_bytes = static_cast<size_t>(scales.shape[1]);
    for (int64_t row = 0; row < codes.n_rows(); ++row) {
      const auto r = static_cast<size_t>(row);
      uint8_t* to = sequences.memory().Row(component, sequences.blocks(0), row);
      std::memcpy(to, codes.bytes.data() + r * code_bytes, code_bytes);
      std::memcpy(to + code_bytes, scales.bytes.data() + r * scale_bytes, scale_bytes);
    }
  };
  write("entry", golden_.model->state().entries[s]);
  write("key", golden_.model->state().keys[s]);
}

}  // namespace sluice::conformance
