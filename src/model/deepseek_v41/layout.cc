#include "model/deepseek_v41/layout.h"

#include <fmt/format.h>

#include "tensor/formats.h"

namespace sluice::model::deepseek_v41 {
namespace {

int32_t AddBlock(kv::Layout& layout, kv::BlockComponent component) {
  layout.block_components.push_back(std::move(component));
  return static_cast<int32_t>(layout.block_components.size()) - 1;
}

int32_t AddSlot(kv::Layout& layout, kv::SlotComponent component) {
  layout.slot_components.push_back(std::move(component));
  return static_cast<int32_t>(layout.slot_components.size()) - 1;
}

// Rows that two verifications can write beyond what is committed.
int32_t ProvisionalRows(const Config& config) { return 2 * (config.dspark_block_size + 1); }

}  // namespace

int32_t RingRows(const Config& config) { return config.sliding_window + ProvisionalRows(config); }

int32_t OpenRows(const Config& config) { return ProvisionalRows(config) / 2 + 1; }

StateIndex::StateIndex(const Config& config) {
  const auto n_layers = static_cast<size_t>(config.num_hidden_layers);
  entries.assign(n_layers, -1);
  keys.assign(n_layers, -1);
  windows.assign(n_layers, -1);
  open.assign(n_layers, -1);
  const int32_t window_bytes = RowBytes(GroupFormat::kFp8, config.head_dim);
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    windows[l] = AddSlot(layout, {.name = fmt::format("window.{}", layer),
                                  .row_bytes = window_bytes,
                                  .n_rows = RingRows(config)});
    if (!config.IsKvSource(layer)) continue;
    const int32_t ratio = config.ratio(layer);
    entries[l] = AddBlock(layout, {.name = fmt::format("entries.{}", layer),
                                   .row_bytes = RowBytes(GroupFormat::kFp4Nv, config.head_dim),
                                   .tokens_per_row = ratio});
    keys[l] = AddBlock(layout, {.name = fmt::format("keys.{}", layer),
                                .row_bytes = RowBytes(GroupFormat::kFp4Mx, config.index_head_dim),
                                .tokens_per_row = ratio});
    if (ratio == 2) {
      open[l] = AddSlot(layout, {.name = fmt::format("open.{}", layer),
                                 .row_bytes = 2 * config.head_dim * 4,
                                 .n_rows = OpenRows(config)});
    }
  }
  for (int32_t stage = 0; stage < config.num_nextn_predict_layers; ++stage) {
    drafts.push_back(AddSlot(layout, {.name = fmt::format("draft.{}", stage),
                                      .row_bytes = window_bytes,
                                      .n_rows = config.sliding_window}));
  }
}

}  // namespace sluice::model::deepseek_v41
