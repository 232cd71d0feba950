// `sluice logits`: what a model thinks of every token of a text, as a file.

#include <fmt/format.h>

#include <algorithm>

#include "app/command.h"
#include "app/known_models.h"
#include "app/local_model.h"
#include "env/posix/posix_env.h"
#include "model/checkpoint/safetensors.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "logits";

constexpr std::string_view kHelp =
    "Writes the logits of every token of a prompt, through all layers (no prefill truncation).\n"
    "\n"
    "usage: sluice logits MODEL --tokens FILE --out FILE.safetensors [--last K] [--threads N]\n"
    "                     [--arithmetic float32|exact]\n"
    "\n"
    "The tensor `logits` is F32 [rows, vocabulary].\n"
    "\n";

struct Options {
  std::string tokens;
  std::string out;
  int32_t n_last = 0;
  ComputeOptions model;

  void Declare(OptionSet& set) {
    set.Add("tokens", &tokens,
            {.help = "File with a JSON list of token ids.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add("out", &out,
            {.help = "File to write, in safetensors format.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add("last", &n_last, {.min = 0, .max = 16'777'216},
            {.help = "Rows of the last tokens only; 0: all.", .reach = OptionReach::kFlagOnly});
    model.Declare(set, OptionReach::kFlagOnly);
  }
};

// Chunk by chunk: all logits of a long prompt may not fit into memory.
Status WriteLogits(model::Sequences& sequences,
                   std::span<const TokenId> tokens,
                   int32_t n_rows,
                   int64_t n_vocab,
                   FileWriter& file) {
  const std::string header =
      model::MakeHeader({{.name = "logits", .dtype = DType::kF32, .shape = {n_rows, n_vocab}}});
  SLUICE_TRY(file.Append(std::as_bytes(std::span(header))));
  while (!tokens.empty()) {
    SLUICE_TRY(std::vector<float> logits, RunChunk(sequences, tokens, n_rows));
    SLUICE_TRY(file.Append(std::as_bytes(std::span(logits))));
  }
  return file.Finish();
}

Status ComputeLogits(const Options& options, std::string_view folder) {
  const PosixEnv posix;
  Env env = posix.env();
  SLUICE_TRY(std::unique_ptr<LocalModel> local, LocalModel::Open(env, folder, options.model));
  const model::ModelInfo& info = local->model().info();
  SLUICE_TRY(std::vector<TokenId> tokens, ReadTokenFile(env.fs, options.tokens, info.n_vocab));
  const auto n_tokens = static_cast<int32_t>(tokens.size());
  if (options.n_last > n_tokens) {
    return Status::Invalid(fmt::format("--last {} is more than the {} tokens of {}", options.n_last,
                                       n_tokens, options.tokens));
  }
  SLUICE_TRY(
      model::Sequences sequences,
      model::Sequences::Open(
          local->model(), local->stream(),
          {.n_seqs = 1, .n_context = n_tokens, .n_rows = kChunkTokens, .n_logits = kChunkTokens}));
  SLUICE_TRY(std::unique_ptr<FileWriter> file, env.fs.Create(options.out));
  return WriteLogits(sequences, tokens, options.n_last > 0 ? options.n_last : n_tokens,
                     info.n_vocab, *file);
}

}  // namespace

int LogitsMain(const CommandLine& line) {
  Options options;
  OptionSet set;
  options.Declare(set);
  if (const auto code = ReadUsage(kCommand, line, set, kHelp, "the MODEL folder or file"))
    return *code;
  options.model.ReadVariant(line.environment);
  if (options.tokens.empty()) return FailUsage(kCommand, Status::Invalid("--tokens is missing"));
  if (options.out.empty()) return FailUsage(kCommand, Status::Invalid("--out is missing"));
  const PosixEnv posix;
  const Result<std::string> path =
      ModelPath(posix.env().fs, line.args[0], DefaultModelsDir(line.environment));
  if (!path) return FailUsage(kCommand, path.error());
  const Status status = ComputeLogits(options, *path);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
