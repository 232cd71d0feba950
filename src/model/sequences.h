// Sequences: a few sequences run on memory of their own, without an engine: for the command-line
// tools, for conformance and for tests. Any mixture of prompt pieces, single tokens and rows to
// verify may run in one step; sequences can be rolled back, copied, exported and imported.
//
// Owned by one thread. The model and the stream outlive it.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/memory.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace sluice::model {

class Sequences {
 public:
  struct Room {
    int32_t n_seqs = 1;
    int32_t n_context = 0;  // positions of each
    int32_t n_rows = 0;     // of one step
    int32_t n_logits = 0;   // of one step
  };
  // kInvalidArgument: a room that the model does not have.
  static Result<Sequences> Open(Model& model, Stream& stream, const Room& room);

  // Rows of one sequence in a step.
  struct Part {
    int32_t seq = 0;
    std::span<const TokenId> tokens;  // new ones
    // For each new token: 1 if it belongs to an image; empty: none.
    std::span<const uint8_t> is_image;
    // For each new token: its row of `media`, or -1; empty: none.
    std::span<const int32_t> media_rows;
    // Tokens before the new ones that run once more, after Import of a prefix: their private state
    // is rebuilt, and no window row before them is read from then on.
    int32_t n_replay = 0;
    // Rows below this position stop in the middle; no window row of the second half before it is
    // read from then on. 0: none does.
    int32_t decoder_begin = 0;
    int32_t n_logits = 0;  // of the last rows
  };
  struct Outputs {
    std::vector<float> logits;  // [parts' n_logits in order, n_vocab]
    std::vector<Bf16> taps;     // [rows that went through, n_tap_values]
  };
  // One step. kInvalidArgument: more than the room, or tokens out of range; nothing has run then.
  Result<Outputs> Run(std::span<const Part> parts,
                      std::span<const Bf16> media = {},
                      const Trace* trace = nullptr);

  int32_t length(int32_t seq) const { return static_cast<int32_t>(tokens(seq).size()); }
  const std::vector<TokenId>& tokens(int32_t seq) const { return At(seq).tokens; }

  // Forgets everything from `length` on, at most the model's two verify widths back (what the rings
  // still hold).
  void RollBack(int32_t seq, int32_t length);
  void Clear(int32_t seq);
  // `to` becomes what `from` is.
  void Copy(int32_t from, int32_t to);

  // What a prefix cache keeps of the first n tokens, as stored: complete shared rows, by component.
  struct Prefix {
    std::vector<TokenId> tokens;  // kImageToken for those of images
    std::vector<std::vector<uint8_t>> rows;
  };
  Prefix ExportPrefix(int32_t seq, int32_t n) const;
  void ImportPrefix(int32_t seq, const Prefix& prefix);
  // The private state: all slot components one after the other, and where windows begin.
  struct Private {
    std::vector<uint8_t> bytes;
    int32_t window_begin = 0;
    int32_t decoder_window_begin = 0;
  };
  Private ExportPrivate(int32_t seq) const;
  void ImportPrivate(int32_t seq, const Private& state);

  kv::Memory& memory() { return memory_; }
  std::span<const BlockId> blocks(int32_t seq) const { return At(seq).blocks; }
  SlotId slot(int32_t seq) const { return At(seq).slot; }

 private:
  struct Sequence {
    std::vector<BlockId> blocks;
    SlotId slot;
    std::vector<TokenId> tokens;  // kImageToken for those of images
    int32_t window_begin = 0;
    int32_t decoder_window_begin = 0;
  };

  Sequences(Model& model, Stream& stream, const Room& room);
  Sequence& At(int32_t seq) { return sequences_[static_cast<size_t>(seq)]; }
  const Sequence& At(int32_t seq) const { return sequences_[static_cast<size_t>(seq)]; }
  Status AddRows(const Part& part);
  void Advance(const Part& part, const SeqView& view);

  Model& model_;
  Stream& stream_;
  const BatchLimits limits_;
  kv::Memory memory_;
  Buffer scratch_;
  std::vector<Sequence> sequences_;
  // Of the step being built.
  std::vector<Row> rows_;
  std::vector<SeqView> views_;
  std::vector<std::vector<TokenId>> histories_;
};

}  // namespace sluice::model
