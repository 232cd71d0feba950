// Inspection: what a model folder holds and what running it would need, found without reading a
// weight. Plain value.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/checkpoint.h"
#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/tensor_list.h"

namespace sluice::app {

// What somebody wants to run.
struct Load {
  int64_t n_context = 0;  // tokens of one sequence; 0: as many as the model allows
  int64_t n_seqs = 1;
  int64_t kv_bytes = 0;      // of KV blocks; 0: every sequence at full length
  int64_t window_bytes = 0;  // of slots for windows that are kept
  // Rows of one step; 0: a piece of a prompt and a verification of every sequence.
  int64_t n_rows = 0;
};

struct MachineMemory {
  int64_t total = 0;
  int64_t available = 0;  // without swapping; files that are only cached count as available
};

// Bytes.
struct MemoryPlan {
  // Read for every token, so they must stay in memory: of routed experts the chosen ones, of the
  // draft if there is speculation, and all of the rest.
  int64_t dense = 0;
  int64_t experts = 0;
  int64_t draft = 0;
  // Engram tables: looked up row by row in the files, of which the system keeps what it has room
  // for.
  int64_t tables = 0;
  // Of the image encoder, which is not used.
  int64_t unused = 0;
  int64_t kv_per_1000_tokens = 0;
  int64_t kv = 0;        // blocks
  int64_t kv_block = 0;  // one of them
  int64_t slot = 0;
  int64_t slots = 0;
  int64_t n_windows = 0;  // of them, for windows that are kept
  int64_t workspace = 0;  // of one step, its logits included

  int64_t weights() const { return dense + experts + draft; }
  int64_t needed() const { return weights() + kv + slots + workspace; }
  // In one line, for people, beside what the machine has.
  std::string Text(const std::optional<MachineMemory>& machine) const;
};

struct Inspection {
  model::Checkpoint checkpoint;
  model::deepseek_v41::Config config;
  Load load;
  // By name; a tensor of the checkpoint that is not here belongs to the image encoder or to
  // nothing.
  std::map<std::string, model::deepseek_v41::TensorSpec, std::less<>> specs;
  std::array<model::deepseek_v41::PartSum, model::deepseek_v41::kNumParts> parts = {};
  model::deepseek_v41::PartSum unknown;
  MemoryPlan plan;
  std::optional<MachineMemory> machine;  // absent where the system does not say
  Status binding;                        // whether the tensors are those of the config

  model::deepseek_v41::PartSum total() const;
  // Whether the plan fits this machine; absent when that is not known.
  std::optional<bool> fits() const;
  // kTooLarge with the parts of the plan when it does not.
  Status CheckFits() const;
  // Less KV, as long as the plan does not fit: what the machine has beside the rest and a reserve,
  // at least one sequence of full length.
  void ShrinkKv();
};

// kInvalidArgument, kNotFound and the like for a folder that is no checkpoint or a config that is
// not implemented; tensors that do not fit the config are an Inspection with its binding set.
Result<Inspection> Inspect(FileSystem& fs, std::string_view folder, const Load& load);

}  // namespace sluice::app
