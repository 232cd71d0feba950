#include "model/stub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sluice::model {
namespace {

// Rows of the rings beyond a window, as models have them for drafts.
constexpr int32_t kSlack = 8;

enum BlockComponentIdx : int32_t { kPrefix };
enum SlotComponentIdx : int32_t { kEncoderWindow, kDecoderWindow };

// A bijection whose every output bit depends on every input bit (the finaliser of SplitMix64,
// Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t Extended(uint64_t prefix, TokenId token) {
  return Mix(prefix + 0x9e3779b97f4a7c15 + static_cast<uint64_t>(token.value));
}
uint64_t WindowEntry(TokenId token, int32_t pos) {
  return Mix((uint64_t{static_cast<uint32_t>(token.value)} << 32) | static_cast<uint32_t>(pos));
}

uint64_t Load(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
void Store(uint64_t value, uint8_t* at) { std::memcpy(at, &value, sizeof value); }

// The entries of a window, read from a ring: [begin, end).
uint64_t SumOfRing(std::span<const uint8_t> ring, int32_t begin, int32_t end) {
  const auto n_rows = static_cast<int32_t>(ring.size() / sizeof(uint64_t));
  uint64_t sum = 0;
  for (int32_t pos = begin; pos < end; ++pos) {
    sum += Load(ring.data() + static_cast<size_t>(pos % n_rows) * sizeof(uint64_t));
  }
  return sum;
}
int32_t FirstSeen(int32_t pos, int32_t begin) {
  return std::max({0, begin, pos + 1 - StubModel::kWindow});
}

}  // namespace

kv::Layout StubModel::MakeLayout() {
  return {
      .block_components = {{.name = "prefix", .row_bytes = sizeof(uint64_t)}},
      .slot_components = {
          {.name = "window", .row_bytes = sizeof(uint64_t), .n_rows = kWindow + kSlack},
          {.name = "decoder_window", .row_bytes = sizeof(uint64_t), .n_rows = kWindow + kSlack}}};
}

StubModel::StubModel(const Params& params) : params_(params) {
  info_.n_vocab = params.n_vocab;
  info_.n_context = params.n_context;
  info_.window = kWindow;
  info_.n_slack = kSlack;
  info_.n_layers = 2;
  info_.first_decoder_layer = 1;
  info_.n_exact_replay = kWindow;
  info_.eos = params.eos;
  info_.layout = MakeLayout();
}

Status StubModel::Check(const StepBatch& batch, const BatchLimits& limits) const {
  const auto n_rows = static_cast<int32_t>(batch.rows.size());
  const auto n_seqs = static_cast<int32_t>(batch.seqs.size());
  if (n_rows > limits.n_rows || n_seqs > limits.n_seqs) {
    return Status::Invalid(fmt::format("{} rows of {} sequences; at most {} of {}", n_rows, n_seqs,
                                       limits.n_rows, limits.n_seqs));
  }
  for (const Row& row : batch.rows) {
    const bool is_token = row.token.value >= 0 && row.token.value < info_.n_vocab;
    const bool is_position = row.pos >= 0 && row.pos < limits.n_context;
    if (is_token && is_position) continue;
    return Status::Invalid(fmt::format("token {} at {}; there are {} tokens and {} positions",
                                       row.token.value, row.pos, info_.n_vocab, limits.n_context));
  }
  return Status::Ok();
}

void StubModel::Forward(const StepBatch& batch,
                        const Workspace& workspace,
                        const StepOutputs& out) {
  float* logits = out.logits;
  for (const SeqView& seq : batch.seqs) {
    const std::span<uint8_t> encoder = workspace.memory.Slot(kEncoderWindow, seq.slot);
    const std::span<uint8_t> decoder = workspace.memory.Slot(kDecoderWindow, seq.slot);
    const auto n_ring = static_cast<int32_t>(encoder.size() / sizeof(uint64_t));
    for (int32_t i = seq.first_row; i < seq.first_row + seq.n_rows; ++i) {
      const Row& row = batch.rows[static_cast<size_t>(i)];
      const uint64_t before =
          row.pos == 0 ? 0 : Load(workspace.memory.Row(kPrefix, seq.blocks, row.pos - 1));
      const uint64_t prefix = Extended(before, row.token);
      if ((row.flags & kReplay) == 0) {
        Store(prefix, workspace.memory.Row(kPrefix, seq.blocks, row.pos));
      }
      const auto at = static_cast<size_t>(row.pos % n_ring) * sizeof(uint64_t);
      const uint64_t entry = WindowEntry(row.token, row.pos);
      Store(entry, encoder.data() + at);
      if ((row.flags & kKvOnly) == 0) Store(entry, decoder.data() + at);
      if ((row.flags & kNeedsLogits) == 0) continue;
      const uint64_t window =
          Mix(SumOfRing(encoder, FirstSeen(row.pos, seq.window_begin), row.pos + 1)) +
          SumOfRing(decoder, FirstSeen(row.pos, seq.decoder_window_begin), row.pos + 1);
      if (params_.has_logits) {
        std::fill_n(logits, info_.n_vocab, 0.0F);
        logits[WantedBy(prefix, window).value] = kLead;
      }
      logits += info_.n_vocab;
    }
  }
}

TokenId StubModel::WantedBehind(std::span<const TokenId> tokens, int32_t decoder_begin) const {
  uint64_t prefix = 0;
  for (const TokenId token : tokens) prefix = Extended(prefix, token);
  const auto last = static_cast<int32_t>(tokens.size()) - 1;
  const auto sum_from = [&](int32_t begin) {
    uint64_t sum = 0;
    for (int32_t pos = FirstSeen(last, begin); pos <= last; ++pos) {
      sum += WindowEntry(tokens[static_cast<size_t>(pos)], pos);
    }
    return sum;
  };
  return WantedBy(prefix, Mix(sum_from(0)) + sum_from(decoder_begin));
}

TokenId StubModel::WantedBy(uint64_t prefix, uint64_t window) const {
  const TokenId wanted(
      static_cast<int32_t>(Mix(prefix ^ Mix(window)) % static_cast<uint64_t>(info_.n_vocab)));
  return wanted == info_.eos ? TokenId((wanted.value + 1) % info_.n_vocab) : wanted;
}

}  // namespace sluice::model
