#include "app/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/planner.h"
#include "env/proc_text.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/weights.h"

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

void SumTensors(Inspection& inspection) {
  for (const model::Checkpoint::Tensor& tensor : inspection.checkpoint.tensors()) {
    const std::string& name = tensor.entry.name;
    const auto spec = inspection.specs.find(name);
    v41::PartSum sum = {.n_bytes = tensor.entry.n_bytes, .n_tensors = 1};
    sum.n_parameters = sum.n_bytes / SizeOf(tensor.entry.dtype);
    if (spec != inspection.specs.end()) {
      sum.n_parameters = spec->second.n_parameters();
      inspection.parts[static_cast<size_t>(spec->second.part)] += sum;
    } else if (v41::IsVisionName(name)) {
      inspection.parts[static_cast<size_t>(v41::Part::kVision)] += sum;
    } else {
      inspection.unknown += sum;
    }
    if (v41::IsVisionName(name)) inspection.plan.unused += sum.n_bytes;
  }
}

void PlanMemory(Inspection& inspection) {
  const Load& load = inspection.load;
  MemoryPlan& plan = inspection.plan;
  plan.tables = inspection.parts[static_cast<size_t>(v41::Part::kEngramTables)].n_bytes;
  plan.experts = inspection.parts[static_cast<size_t>(v41::Part::kRoutedExperts)].n_bytes;
  plan.draft = inspection.parts[static_cast<size_t>(v41::Part::kDraft)].n_bytes;
  plan.dense = inspection.total().n_bytes - plan.tables - plan.unused - plan.experts - plan.draft;
  // Sizes follow from the config alone: this model has no weights and computes nothing.
  const v41::DeepseekV41 model({.config = inspection.config, .weights = {}, .token_classes = {}});
  const kv::Layout& layout = model.info().layout;
  plan.kv_per_1000_tokens = layout.block_bytes() * 1000 / kv::kBlockTokens;
  plan.kv_block = layout.block_bytes();
  plan.kv = load.kv_bytes > 0 ? load.kv_bytes / plan.kv_block * plan.kv_block
                              : plan.kv_block * kv::Layout::BlocksFor(load.n_context) * load.n_seqs;
  plan.slot = layout.slot_bytes();
  plan.n_windows = load.window_bytes / std::max<int64_t>(plan.slot, 1);
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
}

}  // namespace

model::deepseek_v41::PartSum Inspection::total() const {
  v41::PartSum sum = unknown;
  for (const v41::PartSum& part : parts) sum += part;
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

Result<Inspection> Inspect(FileSystem& fs, std::string_view folder, const Load& load) {
  SLUICE_TRY(model::Checkpoint checkpoint, model::Checkpoint::Open(fs, folder));
  Result<v41::Config> config = v41::Config::Parse(checkpoint.config_text());
  if (!config) return config.error().AddContext(folder);
  Inspection inspection = {.checkpoint = std::move(checkpoint),
                           .config = std::move(*config),
                           .load = load,
                           .machine = ReadMachineMemory(fs)};
  const int64_t n_context_max = inspection.config.max_position_embeddings;
  if (load.n_context > n_context_max) {
    return Status::Invalid(
        fmt::format("context is {}; this model has {} positions", load.n_context, n_context_max));
  }
  if (load.n_context == 0) inspection.load.n_context = n_context_max;
  for (v41::TensorSpec& spec : v41::ListTensors(inspection.config)) {
    std::string name = spec.name;
    inspection.specs.emplace(std::move(name), std::move(spec));
  }
  SumTensors(inspection);
  inspection.binding = v41::Weights::Bind(inspection.checkpoint, inspection.config).status();
  if (inspection.binding.ok()) inspection.binding = v41::CheckEngramRows(inspection.config);
  PlanMemory(inspection);
  return inspection;
}

}  // namespace sluice::app
