// hop 6 of 10: after Plan, before Forward.

#include "engine/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace sluice::engine {

Result<std::unique_ptr<Executor>> Executor::Open(const Params& params, model::LoadedModel loaded) {
  const model::ModelInfo& info = loaded.model->info();
  if (params.n_context < 1 || params.n_context > info.n_context) {
    return Status::Invalid(fmt::format("the model has a context of {} tokens; asked for are {}",
                                       info.n_context, params.n_context));
  }
  const int64_t n_least = kv::Layout::BlocksFor(params.n_context);
  if (params.n_blocks < n_least) {
    return Status::Invalid(
        fmt::format("a sequence of {} tokens needs {} blocks of KV memory; there are {}",
                    params.n_context, n_least, params.n_blocks));
  }
  return std::unique_ptr<Executor>(
      new Executor(params, std::move(loaded)));  // tidy: allow, private
}

Executor::Executor(const Params& params, model::LoadedModel loaded)
    : loaded_(std::move(loaded)),
      team_(params.n_threads),
      stream_{.team = team_, .arithmetic = params.arithmetic, .isas = params.isas},
      limits_{.n_rows = params.n_rows,
              .n_seqs = params.n_slots,
              .n_logits = params.n_slots + params.n_scores,
              .n_context = params.n_context},
      memory_(info().layout,
              {.n_blocks = params.n_blocks, .n_slots = params.n_slots + params.n_windows}),
      scratch_(loaded_.model->WorkspaceBytes(limits_)),
      clock_(params.clock) {}

std::span<float> Executor::Run(std::span<const Part> parts) {
  rows_.clear();
  views_.clear();
  size_t n_logits = 0;
  for (const Part& part : parts) {
    AddRows(part);
    n_logits += static_cast<size_t>(part.n_logits);
  }
  logits_.resize(n_logits * static_cast<size_t>(info().n_vocab));
  const model::StepBatch batch{.rows = rows_, .seqs = views_, .media = {}};
  const Status status = loaded_.model->Check(batch, limits_);
  // Requests were checked, and the planner counts.
  if (!status.ok()) CheckFailed(std::string(status.message()).c_str(), __FILE__, __LINE__);
  const Time begin = clock_ != nullptr ? clock_->Now() : Time();
  loaded_.model->Forward(batch,
                         {.stream = stream_,
                          .memory = memory_,
                          .scratch = {scratch_.data(), static_cast<size_t>(scratch_.size())}},
                         {.logits = logits_.data()});
  if (clock_ != nullptr) forward_time_ = clock_->Now() - begin;
  return logits_;
}

void Executor::AddRows(const Part& part) {
  const auto end = static_cast<int32_t>(part.tokens.size());
  const int32_t n_history = std::min(part.begin, info().n_history);
  views_.push_back({.blocks = part.blocks,
                    .slot = part.slot,
                    .first_row = static_cast<int32_t>(rows_.size()),
                    .n_rows = end - part.begin,
                    .window_begin = part.window_begin,
                    .decoder_window_begin = std::max(part.window_begin, part.decoder_begin),
                    .history = part.tokens.subspan(static_cast<size_t>(part.begin - n_history),
                                                   static_cast<size_t>(n_history))});
  for (int32_t pos = part.begin; pos < end; ++pos) {
    model::Row row{.token = part.tokens[static_cast<size_t>(pos)], .pos = pos};
    if (pos < part.n_hit) row.flags |= model::kReplay;
    if (pos < part.decoder_begin) row.flags |= model::kKvOnly;
    if (pos >= end - part.n_logits) row.flags |= model::kNeedsLogits;
    rows_.push_back(row);
  }
}

void Executor::CopyRows(const kv::Cache::Copy& copy) {
  if (copy.n_tokens > 0) memory_.CopyRows(copy.from, copy.to, copy.n_tokens);
}

}  // namespace sluice::engine
