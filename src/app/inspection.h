// Inspection: what a model folder or file holds and what running it would need, found without
// reading a weight. Plain value.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/part_sum.h"
#include "model/checkpoint/safetensors.h"

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
  std::string path;  // of the folder, or of the only file
  struct File {
    std::string name;
    int64_t n_bytes = 0;
  };
  std::vector<File> files;
  struct Tensor {
    std::string name;
    std::string_view format;  // "BF16", "Q4_1"
    model::Shape shape;
    int64_t n_bytes = 0;
    int32_t file = 0;  // index into files
  };
  std::vector<Tensor> tensors;  // by name
  struct Part {
    std::string_view name;
    model::PartSum sum;
  };
  std::vector<Part> parts;  // all that the family has
  model::PartSum unknown;   // tensors that have no place in the model
  Load load;
  MemoryPlan plan;
  std::optional<MachineMemory> machine;  // absent where the system does not say
  Status binding;                        // whether the tensors are those of the config

  model::PartSum total() const;
  // Whether the plan fits this machine; absent when that is not known.
  std::optional<bool> fits() const;
  // kTooLarge with the parts of the plan when it does not.
  Status CheckFits() const;
  // Less KV, as long as the plan does not fit: what the machine has beside the rest and a reserve,
  // at least one sequence of full length.
  void ShrinkKv();
};

// Of a folder or a GGUF file, as model/loader.h. kInvalidArgument, kNotFound and the like for what
// is no checkpoint, or a config that is not implemented; tensors that do not fit the config are an
// Inspection with its binding set.
Result<Inspection> Inspect(FileSystem& fs, std::string_view path, const Load& load);

}  // namespace sluice::app
