// StubModel: a model without arithmetic, for scripts that an engine plays and for tests and
// benches of all that surrounds a model.
//
// Its result still depends on the whole prefix, and on nothing else: each row stores a hash of its
// token and of what the row before it has stored, in blocks as a model's shared rows, and its own
// token in rings as a model's windows. What a row wants next is a hash of both, read from memory.
// So a row that was never written, was written by another sequence or has been given away shows in
// what is drawn (spec users.md, S17).
//
// Thread-compatible.

#pragma once

#include <cstdint>
#include <span>

#include "model/model.h"

namespace sluice::model {

class StubModel final : public Model {
 public:
  struct Params {
    int32_t n_vocab = 0;
    int32_t n_context = 0;
    TokenId eos;             // never what a row wants
    bool has_logits = true;  // false: they stay as they are, for whoever does not look at them
  };
  explicit StubModel(const Params& params);

  static constexpr int32_t kWindow = 128;
  // By how much the wanted token's logit is above the others, which are 0.
  static constexpr float kLead = 50;
  static kv::Layout MakeLayout();

  const ModelInfo& info() const override { return info_; }
  int64_t WorkspaceBytes(const BatchLimits&) const override { return 0; }
  Status Check(const StepBatch& batch, const BatchLimits& limits) const override;
  void Forward(const StepBatch& batch, const Workspace& workspace, const StepOutputs& out) override;

  // What the row of the last of `tokens` wants, computed from them alone. decoder_begin: rows
  // before it stopped in the middle.
  TokenId WantedBehind(std::span<const TokenId> tokens, int32_t decoder_begin) const;

 private:
  TokenId WantedBy(uint64_t prefix, uint64_t window) const;

  const Params params_;
  ModelInfo info_;
};

}  // namespace sluice::model
