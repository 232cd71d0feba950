#include "model/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice::model {

Result<Sequences> Sequences::Open(Model& model, Stream& stream, const Room& room) {
  const ModelInfo& info = model.info();
  if (room.n_seqs < 1 || room.n_rows < 1 || room.n_logits < 0) {
    return Status::Invalid("a room needs at least one sequence and one row");
  }
  if (room.n_context < 1 || room.n_context > info.n_context) {
    return Status::Invalid(fmt::format("the model has a context of {} tokens; asked for are {}",
                                       info.n_context, room.n_context));
  }
  return Sequences(model, stream, room);
}

Sequences::Sequences(Model& model, Stream& stream, const Room& room)
    : model_(model),
      stream_(stream),
      limits_{.n_rows = room.n_rows,
              .n_seqs = room.n_seqs,
              .n_logits = room.n_logits,
              .n_context = room.n_context},
      memory_(
          model.info().layout,
          {.n_blocks = static_cast<int32_t>(kv::Layout::BlocksFor(room.n_context)) * room.n_seqs,
           .n_slots = room.n_seqs}),
      scratch_(model.WorkspaceBytes(limits_)) {
  const auto n_blocks = static_cast<int32_t>(kv::Layout::BlocksFor(room.n_context));
  for (int32_t seq = 0; seq < room.n_seqs; ++seq) {
    Sequence sequence{.blocks = {}, .slot = SlotId(seq), .tokens = {}};
    for (int32_t i = 0; i < n_blocks; ++i) sequence.blocks.emplace_back(seq * n_blocks + i);
    sequences_.push_back(std::move(sequence));
  }
}

Result<Sequences::Outputs> Sequences::Run(std::span<const Part> parts,
                                          std::span<const Bf16> media,
                                          const Trace* trace) {
  rows_.clear();
  views_.clear();
  histories_.assign(parts.size(), {});
  int64_t n_logits = 0;
  int64_t n_through = 0;
  for (const Part& part : parts) {
    SLUICE_TRY(AddRows(part));
    n_logits += part.n_logits;
  }
  for (const Row& row : rows_) n_through += (row.flags & kKvOnly) == 0 ? 1 : 0;
  const StepBatch batch{.rows = rows_, .seqs = views_, .media = media};
  SLUICE_TRY(model_.Check(batch, limits_));
  Outputs outputs;
  outputs.logits.resize(static_cast<size_t>(n_logits * model_.info().n_vocab));
  outputs.taps.resize(static_cast<size_t>(n_through * model_.info().n_tap_values));
  model_.Forward(batch,
                 {.stream = stream_,
                  .memory = memory_,
                  .scratch = {scratch_.data(), static_cast<size_t>(scratch_.size())}},
                 {.logits = outputs.logits.data(),
                  .taps = outputs.taps.empty() ? nullptr : outputs.taps.data(),
                  .trace = trace});
  for (size_t i = 0; i < parts.size(); ++i) Advance(parts[i], views_[i]);
  return outputs;
}

Status Sequences::AddRows(const Part& part) {
  SLUICE_CHECK(part.seq >= 0 && part.seq < std::ssize(sequences_));
  Sequence& seq = At(part.seq);
  const auto begin = static_cast<int32_t>(seq.tokens.size());
  const auto n_new = static_cast<int32_t>(part.tokens.size());
  if (n_new < 1) return Status::Invalid("at least one new token is needed");
  SLUICE_CHECK(part.n_replay >= 0 && part.n_replay <= begin);
  SLUICE_CHECK(part.is_image.empty() || std::ssize(part.is_image) == n_new);
  SLUICE_CHECK(part.media_rows.empty() || std::ssize(part.media_rows) == n_new);
  if (begin + n_new > limits_.n_context) {
    return Status::Invalid(
        fmt::format("{} tokens exceed the context of {}", begin + n_new, limits_.n_context));
  }
  const int32_t first = begin - part.n_replay;
  SeqView view{.blocks = seq.blocks,
               .slot = seq.slot,
               .first_row = static_cast<int32_t>(rows_.size()),
               .n_rows = part.n_replay + n_new,
               .window_begin = seq.window_begin,
               .decoder_window_begin = seq.decoder_window_begin,
               .history = {}};
  if (part.n_replay > 0) view.window_begin = view.decoder_window_begin = first;
  for (int32_t pos = first; pos < begin + n_new; ++pos) {
    const bool is_new = pos >= begin;
    const auto i = static_cast<size_t>(pos - begin);
    const TokenId known = is_new ? part.tokens[i] : seq.tokens[static_cast<size_t>(pos)];
    const bool is_image =
        is_new ? !part.is_image.empty() && part.is_image[i] != 0 : known == kImageToken;
    Row row{.token = known, .pos = pos};
    if (is_new && !part.media_rows.empty()) row.media_row = part.media_rows[i];
    if (is_image) row.flags |= kImage;
    if (!is_new) row.flags |= kReplay;
    if (pos < part.decoder_begin) row.flags |= kKvOnly;
    if (pos >= begin + n_new - part.n_logits) row.flags |= kNeedsLogits;
    rows_.push_back(row);
  }
  if (part.decoder_begin > first) {
    view.decoder_window_begin = std::max(view.decoder_window_begin, part.decoder_begin);
  }
  const int32_t n_history = std::min(first, model_.info().n_history);
  std::vector<TokenId>& history = histories_[views_.size()];
  history.assign(seq.tokens.begin() + (first - n_history), seq.tokens.begin() + first);
  view.history = history;
  views_.push_back(view);
  return Status::Ok();
}

void Sequences::Advance(const Part& part, const SeqView& view) {
  Sequence& seq = At(part.seq);
  seq.window_begin = view.window_begin;
  seq.decoder_window_begin = view.decoder_window_begin;
  for (size_t i = 0; i < part.tokens.size(); ++i) {
    const bool is_image = !part.is_image.empty() && part.is_image[i] != 0;
    seq.tokens.push_back(is_image ? kImageToken : part.tokens[i]);
  }
}

void Sequences::RollBack(int32_t seq, int32_t length) {
  SLUICE_CHECK(length >= 0 && length <= this->length(seq));
  At(seq).tokens.resize(static_cast<size_t>(length));
}

void Sequences::Clear(int32_t seq) {
  At(seq).tokens.clear();
  At(seq).window_begin = At(seq).decoder_window_begin = 0;
}

void Sequences::Copy(int32_t from, int32_t to) {
  ImportPrefix(to, ExportPrefix(from, length(from)));
  ImportPrivate(to, ExportPrivate(from));
}

Sequences::Prefix Sequences::ExportPrefix(int32_t seq, int32_t n) const {
  SLUICE_CHECK(n >= 0 && n <= length(seq));
  const Sequence& sequence = At(seq);
  Prefix prefix;
  prefix.tokens.assign(sequence.tokens.begin(), sequence.tokens.begin() + n);
  const auto& components = memory_.layout().block_components;
  for (size_t c = 0; c < components.size(); ++c) {
    std::vector<uint8_t> rows;
    for (int64_t row = 0; row < n / components[c].tokens_per_row; ++row) {
      const uint8_t* at = memory_.Row(static_cast<int32_t>(c), sequence.blocks, row);
      rows.insert(rows.end(), at, at + components[c].row_bytes);
    }
    prefix.rows.push_back(std::move(rows));
  }
  return prefix;
}

void Sequences::ImportPrefix(int32_t seq, const Prefix& prefix) {
  Clear(seq);
  Sequence& sequence = At(seq);
  SLUICE_CHECK(std::ssize(prefix.tokens) <= limits_.n_context);
  sequence.tokens = prefix.tokens;
  const auto& components = memory_.layout().block_components;
  for (size_t c = 0; c < components.size(); ++c) {
    const auto row_bytes = static_cast<size_t>(components[c].row_bytes);
    for (size_t row = 0; row * row_bytes < prefix.rows[c].size(); ++row) {
      std::memcpy(memory_.Row(static_cast<int32_t>(c), sequence.blocks, static_cast<int64_t>(row)),
                  prefix.rows[c].data() + row * row_bytes, row_bytes);
    }
  }
}

Sequences::Private Sequences::ExportPrivate(int32_t seq) const {
  const Sequence& sequence = At(seq);
  Private state{.bytes = {},
                .window_begin = sequence.window_begin,
                .decoder_window_begin = sequence.decoder_window_begin};
  for (size_t c = 0; c < memory_.layout().slot_components.size(); ++c) {
    const std::span<const uint8_t> bytes = memory_.Slot(static_cast<int32_t>(c), sequence.slot);
    state.bytes.insert(state.bytes.end(), bytes.begin(), bytes.end());
  }
  return state;
}

void Sequences::ImportPrivate(int32_t seq, const Private& state) {
  Sequence& sequence = At(seq);
  sequence.window_begin = state.window_begin;
  sequence.decoder_window_begin = state.decoder_window_begin;
  size_t at = 0;
  for (size_t c = 0; c < memory_.layout().slot_components.size(); ++c) {
    const std::span<uint8_t> bytes = memory_.Slot(static_cast<int32_t>(c), sequence.slot);
    SLUICE_CHECK(at + bytes.size() <= state.bytes.size());
    std::memcpy(bytes.data(), state.bytes.data() + at, bytes.size());
    at += bytes.size();
  }
}

}  // namespace sluice::model
