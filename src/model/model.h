// Model: one step of mathematics. Rows of any number of sequences at any positions go through the
// network together; the state of a sequence is bytes in kv::Memory that the caller addresses.
//
// 1. The bits of a row's result depend on its sequence alone, never on what else is in the batch,
//    on how the sequence was cut into steps, or on the number of threads.
// 2. Nothing is decided here: which rows run, what they may skip and where their state lies is in
//    the batch.
//
// Owned by the engine thread; Forward neither allocates nor waits nor fails: batches are validated
// by Check when they are built.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"
#include "kv/layout.h"
#include "kv/memory.h"
#include "tensor/dtype.h"
#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::model {

// In a history: this token belongs to an image.
inline constexpr TokenId kImageToken{-1};

enum RowFlags : uint8_t {
  kNeedsLogits = 1,
  // May stop once its shared KV is written: the half-price part of a prompt (prefill truncation,
  // ARCHITECTURE.md §11). Its windows in the second half of the layers are not written.
  kKvOnly = 2,
  // Rebuilds private state behind a prefix hit; never writes shared KV.
  kReplay = 4,
  // Of an image span: takes part in no n-gram, routed by the image bias.
  kImage = 8,
};

// One token position of one sequence.
struct Row {
  TokenId token;
  int32_t pos = 0;
  int32_t media_row = -1;  // >= 0: this row of StepBatch::media instead of the token's embedding
  uint8_t flags = 0;
};

// Where one sequence keeps its state, and its rows in this step.
struct SeqView {
  std::span<const BlockId> blocks;  // for every position up to its last row
  SlotId slot;
  int32_t first_row = 0;  // its rows lie together, positions ascending by one
  int32_t n_rows = 0;
  // No window row below these positions is read: 0, or where a replay began (all layers) and where
  // the prompt's second half was cut (layers from ModelInfo::first_decoder_layer on).
  int32_t window_begin = 0;
  int32_t decoder_window_begin = 0;
  // The tokens before the first row, newest last, kImageToken for those of images: the last
  // n_history of them, or all if there are fewer.
  std::span<const TokenId> history;
};

struct StepBatch {
  std::span<const Row> rows;
  std::span<const SeqView> seqs;  // by first_row, covering all rows
  std::span<const Bf16> media;    // [.., hidden_size]
};

// What one step may hold at most; sizes the workspace.
struct BatchLimits {
  int32_t n_rows = 0;
  int32_t n_seqs = 0;
  int32_t n_logits = 0;   // rows with kNeedsLogits
  int32_t n_context = 0;  // positions of a sequence
};

// Somebody who looks at intermediate values (conformance). `layer` is -1 outside of layers.
struct TraceTensor {
  std::string_view name;
  int32_t layer = -1;
  DType dtype = DType::kF32;
  std::span<const int64_t> shape;
  const void* data = nullptr;
};
struct Trace {
  void* context = nullptr;
  void (*note)(void* context, const TraceTensor& tensor) = nullptr;
};

struct StepOutputs {
  float* logits = nullptr;  // [rows with kNeedsLogits, n_vocab], in the order of the rows
  Bf16* taps = nullptr;     // [rows without kKvOnly, n_tap_values]; null: not wanted
  const Trace* trace = nullptr;
};

struct Workspace {
  Stream& stream;
  kv::Memory& memory;
  std::span<std::byte> scratch;  // WorkspaceBytes
};

struct ModelInfo {
  int32_t n_vocab = 0;
  int32_t n_context = 0;
  int32_t hidden_size = 0;
  // Positions that a row sees in full. 0: there are no windows; all that a row reads lies in
  // blocks, slots hold nothing, and nothing need run again behind a prefix hit.
  int32_t window = 0;
  int32_t n_slack = 0;              // rows beyond it that a slot still holds
  int32_t first_decoder_layer = 0;  // kKvOnly rows end inside it
  int32_t n_layers = 0;
  int32_t n_history = 0;     // tokens before a row that its result may look at
  int32_t n_tap_values = 0;  // per row; what the draft reads
  int32_t n_draft = 0;       // tokens drafted at once; 0: no draft
  // Rows before a prefix hit that must be replayed so that no result depends on the hit.
  int32_t n_exact_replay = 0;
  TokenId bos, eos;
  kv::Layout layout;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual int64_t WorkspaceBytes(const BatchLimits& limits) const = 0;
  // kInvalidArgument, naming row and value, for a batch that Forward could not run: rows out of
  // order, positions or tokens out of range, blocks missing, more than the limits.
  virtual Status Check(const StepBatch& batch, const BatchLimits& limits) const = 0;
  virtual void Forward(const StepBatch& batch,
                       const Workspace& workspace,
                       const StepOutputs& out) = 0;
};

}  // namespace sluice::model
