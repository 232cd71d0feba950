#include "app/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/planner.h"
#include "env/proc_text.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/model_place.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/tensor_list.h"
#include "model/deepseek_v41/weights.h"
#include "model/dense/dense.h"
#include "model/dense/tensor_list.h"
#include "model/dense/weights.h"
#include "model/models.h"

namespace sluice::app {
namespace {

namespace v41 = model::deepseek_v41;

// Rows of one step: a piece of a prompt, and a verification of every sequence.
constexpr int32_t kPromptRows = 512;

std::optional<MachineMemory> ReadMachineMemory(FileSystem& fs) {
  const Result<std::string> text = fs.ReadWhole("/proc/meminfo", kMaxProcTextBytes);
  if (!text) return std::nullopt;
  const std::optional<int64_t> total = KilobyteField(*text, "MemTotal");
  const std::optional<int64_t> available = KilobyteField(*text, "MemAvailable");
  if (!total || !available) return std::nullopt;
  return MachineMemory{.total = *total, .available = *available};
}

// How many sequences of what length, and what they need beside the weights.
Status PlanMemory(const model::Model& model, Inspection& inspection) {
  Load& load = inspection.load;
  const int64_t n_context_max = model.info().n_context;
  if (load.n_context > n_context_max) {
    return Status::Invalid(
        fmt::format("context is {}; this model has {} positions", load.n_context, n_context_max));
  }
  if (load.n_context == 0) load.n_context = n_context_max;
  MemoryPlan& plan = inspection.plan;
  const kv::Layout& layout = model.info().layout;
  plan.kv_per_1000_tokens = layout.block_bytes() * 1000 / kv::kBlockTokens;
  plan.kv_block = layout.block_bytes();
  plan.kv = load.kv_bytes > 0 ? load.kv_bytes / plan.kv_block * plan.kv_block
                              : plan.kv_block * kv::Layout::BlocksFor(load.n_context) * load.n_seqs;
  plan.slot = layout.slot_bytes();
  plan.n_windows = plan.slot > 0 ? load.window_bytes / plan.slot : 0;
  plan.slots = plan.slot * (load.n_seqs + plan.n_windows);
  const auto n_seqs = static_cast<int32_t>(load.n_seqs);
  const int32_t n_verify = model.info().n_draft + 1;
  const int64_t n_rows = load.n_rows > 0 ? load.n_rows : kPromptRows + n_seqs * n_verify;
  const int32_t n_logits = n_seqs * n_verify + engine::kMaxScoredRows;
  const int64_t row_bytes = int64_t{model.info().n_vocab} * static_cast<int64_t>(sizeof(float));
  plan.workspace = model.WorkspaceBytes({.n_rows = static_cast<int32_t>(n_rows),
                                         .n_seqs = n_seqs,
                                         .n_logits = n_logits,
                                         .n_context = static_cast<int32_t>(load.n_context)}) +
                   n_logits * row_bytes;
  return Status::Ok();
}

void ListDeepseek(const model::Checkpoint& checkpoint,
                  const v41::Config& config,
                  Inspection& inspection) {
  inspection.path = checkpoint.folder();
  for (const model::Checkpoint::File& file : checkpoint.files()) {
    inspection.files.push_back({.name = file.name, .n_bytes = file.n_bytes});
  }
  std::map<std::string, v41::TensorSpec, std::less<>> specs;
  for (v41::TensorSpec& spec : v41::ListTensors(config)) {
    std::string name = spec.name;
    specs.emplace(std::move(name), std::move(spec));
  }
  for (int32_t i = 0; i < v41::kNumParts; ++i) {
    inspection.parts.push_back({.name = v41::NameOf(static_cast<v41::Part>(i)), .sum = {}});
  }
  const auto sum_of = [&](v41::Part part) -> model::PartSum& {
    return inspection.parts[static_cast<size_t>(part)].sum;
  };
  MemoryPlan& plan = inspection.plan;
  for (const model::Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const model::TensorEntry& entry = tensor.entry;
    inspection.tensors.push_back({.name = entry.name,
                                  .format = NameOf(entry.dtype),
                                  .shape = entry.shape,
                                  .n_bytes = entry.n_bytes,
                                  .file = tensor.file});
    const auto spec = specs.find(entry.name);
    const bool is_vision = v41::IsVisionName(entry.name);
    model::PartSum sum = {.n_bytes = entry.n_bytes, .n_tensors = 1};
    sum.n_parameters =
        spec != specs.end() ? spec->second.n_parameters() : sum.n_bytes / SizeOf(entry.dtype);
    if (spec != specs.end()) {
      sum_of(spec->second.part) += sum;
    } else {
      (is_vision ? sum_of(v41::Part::kVision) : inspection.unknown) += sum;
    }
    if (is_vision) plan.unused += sum.n_bytes;
  }
  plan.tables = sum_of(v41::Part::kEngramTables).n_bytes;
  plan.experts = sum_of(v41::Part::kRoutedExperts).n_bytes;
  plan.draft = sum_of(v41::Part::kDraft).n_bytes;
  plan.dense = inspection.total().n_bytes - plan.tables - plan.unused - plan.experts - plan.draft;
}

Status InspectDeepseek(FileSystem& fs, const std::string& folder, Inspection& inspection) {
  SLUICE_TRY(const model::Checkpoint checkpoint, model::Checkpoint::Open(fs, folder));
  Result<v41::Config> config = v41::Config::Parse(checkpoint.config_text());
  if (!config) return config.error().AddContext(folder);
  ListDeepseek(checkpoint, *config, inspection);
  inspection.binding = v41::Weights::Bind(checkpoint, *config).status();
  if (inspection.binding.ok()) inspection.binding = v41::CheckEngramRows(*config);
  // Sizes follow from the config alone: this model has no weights and computes nothing.
  const v41::DeepseekV41 model({.config = std::move(*config), .weights = {}, .token_classes = {}});
  return PlanMemory(model, inspection);
}

Status InspectDense(FileSystem& fs, const model::ModelPlace& place, Inspection& inspection) {
  SLUICE_TRY(const model::dense::Source source, model::dense::Source::Open(fs, place));
  inspection.path = source.path();
  for (const model::dense::Source::File& file : source.files()) {
    inspection.files.push_back({.name = file.name, .n_bytes = file.n_bytes});
  }
  std::map<std::string, model::dense::Part, std::less<>> parts;
  for (model::dense::TensorSpec& spec :
       model::dense::ListTensors(source.config(), source.naming())) {
    parts.emplace(std::move(spec.name), spec.part);
  }
  for (int32_t i = 0; i < model::dense::kNumParts; ++i) {
    const auto part = static_cast<model::dense::Part>(i);
    inspection.parts.push_back({.name = model::dense::NameOf(part), .sum = {}});
  }
  for (const model::dense::StoredTensor& tensor : source.tensors()) {
    const auto n_bytes = static_cast<int64_t>(tensor.bytes.size());
    inspection.tensors.push_back({.name = tensor.name,
                                  .format = NameOf(tensor.matrix.format),
                                  .shape = tensor.shape,
                                  .n_bytes = n_bytes,
                                  .file = tensor.file});
    const auto part = parts.find(tensor.name);
    model::PartSum& sum = part == parts.end()
                              ? inspection.unknown
                              : inspection.parts[static_cast<size_t>(part->second)].sum;
    sum += {.n_parameters = tensor.matrix.n_out * tensor.matrix.n_in,
            .n_bytes = n_bytes,
            .n_tensors = 1};
  }
  inspection.plan.dense = inspection.total().n_bytes;
  inspection.binding = model::dense::Weights::Bind(source).status();
  const model::dense::Dense model({.config = source.config(), .weights = {}, .source = nullptr});
  return PlanMemory(model, inspection);
}

}  // namespace

model::PartSum Inspection::total() const {
  model::PartSum sum = unknown;
  for (const Part& part : parts) sum += part.sum;
  return sum;
}

std::optional<bool> Inspection::fits() const {
  if (!machine) return std::nullopt;
  return plan.needed() <= machine->available;
}

std::string MemoryPlan::Text(const std::optional<MachineMemory>& machine) const {
  const auto gb = [](int64_t n_bytes) { return static_cast<double>(n_bytes) / 1e9; };
  const int64_t windows = slot * n_windows;
  std::string text = fmt::format(
      "weights {:.2f} GB, KV {:.2f} GB for {} tokens, windows {:.2f} GB, slots {:.2f} GB, "
      "workspace {:.2f} GB",
      gb(weights()), gb(kv), kv / kv_block * kv::kBlockTokens, gb(windows), gb(slots - windows),
      gb(workspace));
  if (machine) text += fmt::format("; {:.2f} GB available", gb(machine->available));
  return text;
}

void Inspection::ShrinkKv() {
  if (fits().value_or(true)) return;
  const int64_t n_left = machine->available - (plan.needed() - plan.kv) - machine->total / 20;
  const int64_t n_blocks = std::max(n_left / plan.kv_block, kv::Layout::BlocksFor(load.n_context));
  plan.kv = std::min(plan.kv, n_blocks * plan.kv_block);
}

Status Inspection::CheckFits() const {
  if (fits().value_or(true)) return Status::Ok();
  const auto gb = [](int64_t n_bytes) { return static_cast<double>(n_bytes) / 1e9; };
  return {ErrorCode::kTooLarge,
          fmt::format("{} x {} tokens need {:.1f} GB (weights {:.1f}, KV {:.1f}, slots {:.1f}, "
                      "workspace {:.1f}), and this machine has {:.1f} GB available",
                      load.n_seqs, load.n_context, gb(plan.needed()), gb(plan.weights()),
                      gb(plan.kv), gb(plan.slots), gb(plan.workspace), gb(machine->available))};
}

Result<Inspection> Inspect(FileSystem& fs, std::string_view path, const Load& load) {
  SLUICE_TRY(const model::ModelPlace place, model::FindModel(fs, path));
  SLUICE_TRY(const model::Family family, model::FamilyOf(fs, place));
  Inspection inspection = {.load = load, .machine = ReadMachineMemory(fs)};
  SLUICE_TRY(family == model::Family::kDense ? InspectDense(fs, place, inspection)
                                             : InspectDeepseek(fs, place.path, inspection));
  return inspection;
}

}  // namespace sluice::app
