// `sluice inspect`: what a model folder holds, and whether this machine can run it.

#include <fmt/format.h>

#include "app/command.h"
#include "app/inspection.h"
#include "app/known_models.h"
#include "base/json_writer.h"
#include "env/posix/posix_env.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "inspect";

constexpr std::string_view kHelp =
    "Says what a model folder or file holds and what running it needs, without reading a weight.\n"
    "\n"
    "usage: sluice inspect MODEL [--tensors] [--json] [--context N] [--batch N]\n"
    "\n"
    "Ends with 1 when it is no model or its tensors are not those of its configuration.\n"
    "\n";

struct Options {
  bool tensors = false;
  bool json = false;
  Load load;

  void Declare(OptionSet& set) {
    set.Add("tensors", &tensors,
            {.help = "List every tensor too.", .reach = OptionReach::kFlagOnly});
    set.Add("json", &json, {.help = "For programs.", .reach = OptionReach::kFlagOnly});
    set.Add("context", &load.n_context, {.min = 0, .max = 16'777'216},
            {.help = "Length of one sequence in the memory plan; 0: as the model allows.",
             .unit = "tokens",
             .reach = OptionReach::kFlagOnly});
    set.Add("batch", &load.n_seqs, {.min = 1, .max = 65'536},
            {.help = "Sequences at the same time in the memory plan.",
             .unit = "sequences",
             .reach = OptionReach::kFlagOnly});
  }
};

// 510286023000 -> "510,286,023,000".
std::string Grouped(int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string SumLine(std::string_view name, const model::PartSum& sum) {
  return fmt::format("{:<30} {:>19} {:>19} {:>8}\n", name, Grouped(sum.n_parameters),
                     Grouped(sum.n_bytes), Grouped(sum.n_tensors));
}

std::string InventoryText(const Inspection& found) {
  std::string text = fmt::format("{}: {} files, {} tensors\n\n", found.path, found.files.size(),
                                 Grouped(static_cast<int64_t>(found.tensors.size())));
  text += fmt::format("{:<30} {:>19} {:>19} {:>8}\n", "part", "parameters", "bytes", "tensors");
  for (const Inspection::Part& part : found.parts) text += SumLine(part.name, part.sum);
  if (found.unknown.n_tensors > 0) text += SumLine("not of this model", found.unknown);
  return text + SumLine("total", found.total());
}

std::string PlanText(const Inspection& found) {
  const MemoryPlan& plan = found.plan;
  const auto line = [](std::string_view name, int64_t n_bytes, std::string_view remark) {
    return fmt::format("{:<30} {:>19}  {}\n", name, Grouped(n_bytes), remark);
  };
  std::string text = fmt::format("\nmemory for {} x {} tokens, in bytes\n", found.load.n_seqs,
                                 Grouped(found.load.n_context));
  const auto line_if_any = [&](std::string_view name, int64_t n_bytes, std::string_view remark) {
    return n_bytes > 0 ? line(name, n_bytes, remark) : "";
  };
  text += line(plan.experts > 0 ? "weights: all but experts" : "weights", plan.dense,
               "read for every token");
  text +=
      line_if_any("weights: routed experts", plan.experts, "a few of each layer for every token");
  text += line_if_any("weights: draft", plan.draft, "read when tokens are drafted");
  text += line("KV", plan.kv, fmt::format("{} per 1,000 tokens", Grouped(plan.kv_per_1000_tokens)));
  text += line_if_any("slots", plan.slots, fmt::format("{} per sequence", Grouped(plan.slot)));
  text += line("workspace", plan.workspace, "");
  text += line("needed", plan.needed(), "");
  text +=
      line_if_any("Engram tables", plan.tables, "looked up in the files; more memory caches more");
  text += line_if_any("image encoder", plan.unused, "not used");
  if (!found.machine) return text + "\nThis machine does not say how much memory it has.\n";
  return text + fmt::format("\n{}: this machine has {} bytes, of which {} are available.\n",
                            *found.fits() ? "yes, it fits" : "no, it does not fit",
                            Grouped(found.machine->total), Grouped(found.machine->available));
}

std::string_view FileOf(const Inspection& found, const Inspection::Tensor& tensor) {
  return found.files[static_cast<size_t>(tensor.file)].name;
}

std::string TensorsText(const Inspection& found) {
  std::string text = "\n";
  for (const Inspection::Tensor& tensor : found.tensors) {
    text +=
        fmt::format("{:<46} {:<8} {:<18} {:>15}  {}\n", tensor.name, tensor.format,
                    model::ToString(tensor.shape), Grouped(tensor.n_bytes), FileOf(found, tensor));
  }
  return text;
}

void WriteSum(JsonWriter& w, std::string_view name, const model::PartSum& sum) {
  w.Object();
  w.Key("part").String(name);
  w.Key("parameters").Int(sum.n_parameters);
  w.Key("bytes").Int(sum.n_bytes);
  w.Key("tensors").Int(sum.n_tensors);
  w.EndObject();
}

void WriteInventory(JsonWriter& w, const Inspection& found) {
  w.Key("model").String(found.path);
  w.Key("files").Array();
  for (const Inspection::File& file : found.files) {
    w.Object().Key("name").String(file.name).Key("bytes").Int(file.n_bytes).EndObject();
  }
  w.EndArray();
  const model::PartSum total = found.total();
  w.Key("parameters").Int(total.n_parameters);
  w.Key("bytes").Int(total.n_bytes);
  w.Key("tensors").Int(total.n_tensors);
  w.Key("parts").Array();
  for (const Inspection::Part& part : found.parts) WriteSum(w, part.name, part.sum);
  if (found.unknown.n_tensors > 0) WriteSum(w, "not of this model", found.unknown);
  w.EndArray();
  w.Key("error");
  found.binding.ok() ? w.Null() : w.String(found.binding.message());
}

void WritePlan(JsonWriter& w, const Inspection& found) {
  const MemoryPlan& plan = found.plan;
  w.Key("plan").Object();
  w.Key("context").Int(found.load.n_context);
  w.Key("batch").Int(found.load.n_seqs);
  w.Key("weights_bytes").Int(plan.weights());
  w.Key("dense_bytes").Int(plan.dense);
  w.Key("expert_bytes").Int(plan.experts);
  w.Key("draft_bytes").Int(plan.draft);
  w.Key("engram_table_bytes").Int(plan.tables);
  w.Key("unused_bytes").Int(plan.unused);
  w.Key("kv_bytes_per_1000_tokens").Int(plan.kv_per_1000_tokens);
  w.Key("kv_bytes").Int(plan.kv);
  w.Key("slot_bytes").Int(plan.slot);
  w.Key("slots_bytes").Int(plan.slots);
  w.Key("workspace_bytes").Int(plan.workspace);
  w.Key("needed_bytes").Int(plan.needed());
  if (found.machine) {
    w.Key("machine_bytes").Int(found.machine->total);
    w.Key("available_bytes").Int(found.machine->available);
    w.Key("fits").Bool(*found.fits());
  }
  w.EndObject();
}

void WriteTensors(JsonWriter& w, const Inspection& found) {
  w.Key("tensor_list").Array();
  for (const Inspection::Tensor& tensor : found.tensors) {
    w.Object();
    w.Key("name").String(tensor.name);
    w.Key("dtype").String(tensor.format);
    w.Key("shape").Array();
    for (int64_t n : tensor.shape) w.Int(n);
    w.EndArray();
    w.Key("bytes").Int(tensor.n_bytes);
    w.Key("file").String(FileOf(found, tensor));
    w.EndObject();
  }
  w.EndArray();
}

std::string Json(const Inspection& found, bool with_tensors) {
  std::string text;
  JsonWriter w(text);
  w.Object();
  WriteInventory(w, found);
  WritePlan(w, found);
  if (with_tensors) WriteTensors(w, found);
  w.EndObject();
  return text + "\n";
}

std::string Text(const Inspection& found, bool with_tensors) {
  return InventoryText(found) + PlanText(found) + (with_tensors ? TensorsText(found) : "");
}

}  // namespace

int InspectMain(const CommandLine& line) {
  Options options;
  OptionSet set;
  options.Declare(set);
  if (const auto code = ReadUsage(kCommand, line, set, kHelp, "the MODEL folder or file"))
    return *code;
  const PosixEnv posix;
  const Result<std::string> path =
      ModelPath(posix.env().fs, line.args[0], DefaultModelsDir(line.environment));
  if (!path) return FailUsage(kCommand, path.error());
  const Result<Inspection> found = Inspect(posix.env().fs, *path, options.load);
  if (!found) return Fail(kCommand, found.error());
  Print(options.json ? Json(*found, options.tensors) : Text(*found, options.tensors));
  return found->binding.ok() ? kDone : Fail(kCommand, found->binding);
}

}  // namespace sluice::app
