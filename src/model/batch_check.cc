#include "model/batch_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/result.h"

namespace sluice::model {
namespace {

Status BadRow(int64_t row, std::string_view what) {
  return Status::Invalid(fmt::format("row {} of the batch: {}", row, what));
}

Status CheckRow(const ModelInfo& info, const StepBatch& batch, int64_t at) {
  const Row& row = batch.rows[static_cast<size_t>(at)];
  if (row.media_row < 0 && (row.token.value < 0 || row.token.value >= info.n_vocab)) {
    return BadRow(at, fmt::format("token {} is not in [0, {})", row.token.value, info.n_vocab));
  }
  const int64_t n_media = std::ssize(batch.media) / info.hidden_size;
  if (row.media_row >= n_media) {
    return BadRow(at, fmt::format("media row {} is not in [0, {})", row.media_row, n_media));
  }
  if (row.pos < 0 || row.pos >= info.n_context) {
    return BadRow(at, fmt::format("position {} is not in [0, {})", row.pos, info.n_context));
  }
  if ((row.flags & kKvOnly) != 0 && (row.flags & kNeedsLogits) != 0) {
    return BadRow(at, "it needs logits and may not stop before them");
  }
  return Status::Ok();
}

Status CheckSeq(const ModelInfo& info, const StepBatch& batch, const SeqView& seq) {
  const Row* rows = batch.rows.data() + seq.first_row;
  for (int32_t i = 0; i < seq.n_rows; ++i) {
    const int64_t at = seq.first_row + i;
    SLUICE_TRY(CheckRow(info, batch, at));
    if (i == 0) continue;
    if (rows[i].pos != rows[i - 1].pos + 1) {
      return BadRow(at, fmt::format("position {} follows {}", rows[i].pos, rows[i - 1].pos));
    }
    // Replayed rows come before new ones, rows that end early before those that do not.
    for (uint8_t flag : {kReplay, kKvOnly}) {
      if ((rows[i].flags & flag) != 0 && (rows[i - 1].flags & flag) == 0) {
        return BadRow(at, "replayed or early-ending rows may only stand first");
      }
    }
  }
  const int32_t first = rows[0].pos;
  const int32_t last = rows[seq.n_rows - 1].pos;
  if (std::ssize(seq.blocks) < kv::Layout::BlocksFor(int64_t{last} + 1)) {
    return BadRow(seq.first_row,
                  fmt::format("{} blocks do not hold {} positions", seq.blocks.size(), last + 1));
  }
  const int32_t n_history = std::min(info.n_history, first);
  if (std::ssize(seq.history) < n_history) {
    return BadRow(seq.first_row,
                  fmt::format("the history has {} tokens, not {}", seq.history.size(), n_history));
  }
  for (TokenId token : seq.history) {
    if (token != kImageToken && (token.value < 0 || token.value >= info.n_vocab)) {
      return BadRow(seq.first_row, fmt::format("token {} of the history is not in [0, {})",
                                               token.value, info.n_vocab));
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckBatch(const ModelInfo& info, const StepBatch& batch, const BatchLimits& limits) {
  int64_t n_rows = 0;
  int64_t n_logits = 0;
  for (const SeqView& seq : batch.seqs) {
    if (seq.first_row != n_rows || seq.n_rows < 1) {
      return BadRow(seq.first_row, "sequences must cover all rows, in order, each at least one");
    }
    n_rows += seq.n_rows;
    if (n_rows > std::ssize(batch.rows)) break;
    SLUICE_TRY(CheckSeq(info, batch, seq));
  }
  if (n_rows != std::ssize(batch.rows)) return Status::Invalid("sequences must cover all rows");
  for (const Row& row : batch.rows) {
    if ((row.flags & kNeedsLogits) != 0) ++n_logits;
    if (row.pos >= limits.n_context) {
      return Status::Invalid(
          fmt::format("position {} exceeds the step's context of {}", row.pos, limits.n_context));
    }
  }
  if (n_rows > limits.n_rows || std::ssize(batch.seqs) > limits.n_seqs ||
      n_logits > limits.n_logits) {
    return Status::Invalid(
        fmt::format("a step of {} rows, {} sequences and {} logits exceeds {}, {} and {}", n_rows,
                    batch.seqs.size(), n_logits, limits.n_rows, limits.n_seqs, limits.n_logits));
  }
  return Status::Ok();
}

}  // namespace sluice::model
