// `sluice generate`: a model goes on from a prompt, without a server.

#include <fmt/format.h>

#include <optional>

#include "app/command.h"
#include "app/known_models.h"
#include "app/local_model.h"
#include "app/model_format.h"
#include "codec/format.h"
#include "engine/sampling/logits.h"
#include "engine/sampling/sampler.h"
#include "env/posix/posix_env.h"
#include "model/sequences.h"
#include "token/bpe.h"
#include "token/detokenizer.h"
#include "token/vocabulary.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "generate";

constexpr std::string_view kHelp =
    "Goes on from a prompt, without a server.\n"
    "\n"
    "usage: sluice generate MODEL --prompt TEXT [--max-tokens N] [--temperature T] [--top-p P]\n"
    "                       [--seed S] [--threads N] [--arithmetic float32|exact]\n"
    "       sluice generate MODEL --tokens FILE ...\n"
    "\n"
    "TEXT comes behind the begin-of-sentence token, if the model has one, without a template;\n"
    "control tokens may be spelled in it, such as <think>. The answer to it is text. FILE holds a\n"
    "JSON list of ids, and the answer to it is one. The same seed gives the same tokens.\n"
    "\n";

constexpr std::string_view kTokenizerName = "tokenizer.json";

struct Options {
  std::string tokens;
  std::string prompt;
  int32_t n_max = 16;
  double temperature = 0;
  double top_p = 1;
  int64_t seed = 0;
  ComputeOptions model;

  void Declare(OptionSet& set) {
    set.Add("prompt", &prompt,
            {.help = "Text to go on from; the model must have its tokenizer.",
             .value = "TEXT",
             .has_lines = true,
             .reach = OptionReach::kFlagOnly});
    set.Add("tokens", &tokens,
            {.help = "File with a JSON list of token ids.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add(
        "max-tokens", &n_max, {.min = 1, .max = 16'777'216},
        {.help = "Tokens to generate; less when the model ends.", .reach = OptionReach::kFlagOnly});
    set.Add("temperature", &temperature, NumberRange{.min = 0, .max = 100},
            {.help = "0: the likeliest token each time.", .reach = OptionReach::kFlagOnly});
    set.Add("top-p", &top_p, NumberRange{.min = 0, .max = 1},
            {.help = "Draw from the likeliest tokens that have this part of the probability.",
             .reach = OptionReach::kFlagOnly});
    set.Add("seed", &seed, {.min = 0}, {.help = "Of the draws.", .reach = OptionReach::kFlagOnly});
    model.Declare(set, OptionReach::kFlagOnly);
  }
};

// How the model writes: its tokenizer, what stands before a text, what ends an answer.
Result<codec::OwnedFormat> ReadFormatOf(FileSystem& fs, std::string_view path) {
  AppOptions options;
  options.model = path;
  Result<ModelFormat> format = ReadFormat(fs, options);
  // Of a GGUF file it is a key that is missing, which is named.
  if (!format && format.error().code() == ErrorCode::kNotFound && !fs.Size(path)) {
    return Status::Invalid(fmt::format("{} has no {}, which --prompt needs; --tokens does without",
                                       path, kTokenizerName));
  }
  SLUICE_TRY(ModelFormat read, std::move(format));
  return std::move(read.format);
}

// The text as a raw completion, behind what the model puts in front of one (spec http-api.md §3).
std::vector<TokenId> TokensOf(std::string_view text, codec::Format format) {
  std::vector<TokenId> tokens;
  if (const std::optional<TokenId> begin = format.begin()) tokens.push_back(*begin);
  format.bpe().EncodeWithAdded(text, tokens);
  return tokens;
}

// Prints an answer as it comes: as text if there is a vocabulary, else as a JSON list of ids.
// Owned by one thread.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const std::optional<codec::OwnedFormat>& format) {
    if (format) detokenizer_.emplace(format->get().vocabulary());
  }

  // The token that ends the answer is no text.
  void Add(TokenId token, bool is_end) {
    if (!detokenizer_) return Print(fmt::format("{}{}", n_++ == 0 ? "[" : ", ", token.value));
    if (is_end) return;
    std::vector<std::string> texts;
    detokenizer_->Push({&token, 1}, texts);
    for (const std::string& text : texts) Print(text);
  }
  void Finish() { Print(detokenizer_ ? detokenizer_->Finish() + "\n" : "]\n"); }

 private:
  std::optional<token::Detokenizer> detokenizer_;
  int64_t n_ = 0;
};

// Goes on from what `sequences` has run; logits are those of its last token.
Status Answer(const Options& options,
              std::optional<TokenId> eos,
              const std::optional<codec::OwnedFormat>& format,
              model::Sequences& sequences,
              std::vector<float> logits,
              AnswerPrinter& printer) {
  const engine::SampleParams sample{.temperature = options.temperature,
                                    .top_p = options.top_p,
                                    .seed = static_cast<uint64_t>(options.seed)};
  engine::Sampler sampler;
  for (int32_t i = 0; i < options.n_max; ++i) {
    if (!engine::IsFinite(logits)) {
      return Status(ErrorCode::kCorrupt, "the model computed a value that is not finite");
    }
    const std::optional<TokenId> drawn = sampler.Sample(logits, sample, sequences.length(0));
    if (!drawn) return Status(ErrorCode::kInternal, "the model gave no token a probability");
    const TokenId token = *drawn;
    const bool is_end = token == eos || (format && format->get().is_end(token));
    printer.Add(token, is_end);
    if (is_end || i + 1 == options.n_max) break;
    const model::Sequences::Part part{.tokens = {&token, 1}, .n_logits = 1};
    SLUICE_TRY(model::Sequences::Outputs out, sequences.Run({&part, 1}));
    logits = std::move(out.logits);
  }
  printer.Finish();
  return Status::Ok();
}

Status Generate(const Options& options, std::string_view folder) {
  const PosixEnv posix;
  Env env = posix.env();
  // Before the weights: reading those takes long.
  std::optional<codec::OwnedFormat> format;
  if (!options.prompt.empty()) {
    SLUICE_TRY(codec::OwnedFormat read, ReadFormatOf(env.fs, folder));
    format.emplace(std::move(read));
  }
  std::optional<int32_t> n_tokens;
  if (format) n_tokens = format->get().n_tokens();
  SLUICE_TRY(std::unique_ptr<LocalModel> local,
             LocalModel::Open(env, folder, options.model, n_tokens));
  model::Model& model = local->model();
  std::vector<TokenId> prompt;
  if (format) {
    prompt = TokensOf(options.prompt, format->get());
  } else {
    SLUICE_TRY(prompt, ReadTokenFile(env.fs, options.tokens, model.info().n_vocab));
  }
  if (prompt.empty()) return Status::Invalid("the prompt is empty: no token stands for its text");
  const int64_t n_context = static_cast<int64_t>(prompt.size()) + options.n_max;
  if (n_context > model.info().n_context) {
    return Status::Invalid(
        fmt::format("{} tokens of prompt and max-tokens = {} exceed the model's "
                    "context of {}",
                    prompt.size(), options.n_max, model.info().n_context));
  }
  SLUICE_TRY(model::Sequences sequences,
             model::Sequences::Open(model, local->stream(),
                                    {.n_seqs = 1,
                                     .n_context = static_cast<int32_t>(n_context),
                                     .n_rows = kChunkTokens,
                                     .n_logits = 1}));
  std::vector<float> logits;
  for (std::span<const TokenId> rest = prompt; !rest.empty();) {
    SLUICE_TRY(logits, RunChunk(sequences, rest, 1));
  }
  AnswerPrinter printer(format);
  return Answer(options, model.info().eos, format, sequences, std::move(logits), printer);
}

}  // namespace

int GenerateMain(const CommandLine& line) {
  Options options;
  OptionSet set;
  options.Declare(set);
  if (const auto code = ReadUsage(kCommand, line, set, kHelp, "the MODEL folder or file"))
    return *code;
  options.model.ReadVariant(line.environment);
  if (options.tokens.empty() == options.prompt.empty()) {
    return FailUsage(kCommand, Status::Invalid("one of --prompt and --tokens is wanted"));
  }
  const PosixEnv posix;
  const Result<std::string> path =
      ModelPath(posix.env().fs, line.args[0], DefaultModelsDir(line.environment));
  if (!path) return FailUsage(kCommand, path.error());
  const Status status = Generate(options, *path);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
