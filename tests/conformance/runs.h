// Computes what a golden folder has values for. One Runs per arithmetic.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "conformance/golden.h"
#include "model/sequences.h"
#include "tensor/stream.h"

namespace sluice::conformance {

class Runs {
 public:
  Runs(const Golden& golden, Stream& stream) : golden_(golden), stream_(stream) {}

  // By name of the golden tensor. A tensor that nobody computes is missing.
  const std::map<std::string, Tensor>& All();

 private:
  using Part = model::Sequences::Part;
  using Outputs = model::Sequences::Outputs;

  model::Sequences Open(int32_t n_seqs, int32_t n_context) const;
  std::span<const TokenId> Prompt(int32_t begin, int32_t end) const;
  Outputs Append(model::Sequences& sequences, const Part& part) const;
  void Put(const std::string& name, DType dtype, model::Shape shape, const void* data);
  void PutLogits(const std::string& name, const std::vector<float>& logits);
  // Room for the tensor `name` has in the golden file: its number of rows.
  int32_t RowsOf(const std::string& name) const;

  void Prefill(int32_t n);
  void Greedy(int32_t n);
  void Truncated(int32_t n, int32_t n_more, const std::string& prefix);
  void Replay(int32_t hit, int32_t n_new, const std::string& prefix);
  void Image(int32_t n);
  void Draft(int32_t p);
  // Float32: every layer from golden inputs.
  void FeedLayers(int32_t n);
  void FeedLayer(int32_t n, int32_t layer);
  void FeedState(int32_t n, int32_t layer, model::Sequences& sequences);

  // A trace that puts what it is told under `prefix`; names of stored rows are split into codes
  // and scales.
  struct Sink {
    Runs* runs;
    std::string prefix;
  };
  static void NoteInto(void* context, const model::TraceTensor& tensor);
  void PutStored(const std::string& name, const model::TraceTensor& tensor);

  const Golden& golden_;
  Stream& stream_;
  std::map<std::string, Tensor> computed_;
};

}  // namespace sluice::conformance
