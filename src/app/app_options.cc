#include "app/app_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/known_models.h"
#include "base/limits.h"

namespace sluice::app {
namespace {

constexpr std::string_view kLogLevels[] = {"debug", "info", "warn", "error"};
constexpr std::string_view kLogFormats[] = {"text", "json"};

void DeclareActions(AppOptions& o, OptionSet& set) {
  set.Group("Command");
  set.Add("help", &o.help, {.help = "Print this and leave.", .reach = OptionReach::kFlagOnly});
  set.Add("config", &o.config,
          {.help = "TOML file with options.",
           .value = "FILE",
           .reach = OptionReach::kFlagOrEnvironment});
  set.Add(
      "print-config", &o.print_config,
      {.help =
           "Print what is set, as a config file that says where each value comes from, and leave.",
       .reach = OptionReach::kFlagOnly});
}

void DeclareModel(AppOptions& o, OptionSet& set) {
  set.Group("Model");
  set.Add("model", &o.model,
          {.help = "Model that answers: its folder, a .gguf file, or the name of one that `sluice "
                   "pull` has fetched; the first argument of the command, without a flag, is the "
                   "same.",
           .value = "MODEL"});
  set.Add("models-dir", &o.models_dir,
          {.help = "Folder of fetched models; without it sluice in the user's cache folder.",
           .value = "FOLDER"});
  set.Add(
      "script", &o.script,
      {.help = "Script that answers in place of a model; with a model, the tokens that it would "
               "sample are the script's.",
       .value = "FILE"});
  set.Add("script-engine", &o.script_engine,
          {.help = "Without a model, scripts run through the engine over a model without "
                   "arithmetic: batching, KV memory and prefix cache are the real ones."});
  set.Add("tokenizer", &o.tokenizer,
          {.help = "tokenizer.json of the model, a folder that has one, or a GGUF file; without it "
                   "that of the model, or of a script a small one that is built in.",
           .value = "PATH"});
  set.Add("model-name", &o.model_name,
          {.help = "Name of the model in the API; without it as its GGUF file is called, or "
                   "deepseek-flash.",
           .value = "NAME"});
  set.Add("model-alias", &o.model_aliases,
          {.help = "Further name that requests may use; once for each name.", .value = "NAME"});
  set.Add(
      "context", &o.n_context, {.min = 1, .max = 1'048'576},
      {.help = "Prompt and output of one request together.", .unit = "tokens", .is_limit = true});
  set.Add(
      "max-output", &o.n_output_max, {.min = 1, .max = 1'048'576},
      {.help = "Output of one request, whatever it asks for.", .unit = "tokens", .is_limit = true});
  set.Add("default-thinking", &o.default_thinking,
          {.help = "Think before the answer unless a request says otherwise."});
}

void DeclareEngine(AppOptions& o, OptionSet& set) {
  set.Group("Engine");
  set.Add("max-running", &o.max_running, {.min = 1, .max = 65'536},
          {.help = "Answers generated at the same time; further ones wait.",
           .unit = "answers",
           .is_limit = true});
  set.Add("max-waiting", &o.n_waiting_max, {.min = 0, .max = 1'000'000},
          {.help = "Requests that wait for one of max-running places; further ones are refused. A "
                   "key may have four times what is free, bulk requests half.",
           .unit = "requests",
           .is_limit = true});
  set.Add("max-waiting-tokens", &o.n_waiting_tokens_max, {.min = 0, .max = 1'000'000'000'000},
          {.help = "Prompts of the requests that wait, likewise; 0: one context for each of "
                   "max-running places, eight at least.",
           .unit = "tokens",
           .is_limit = true});
  set.Add("prefill-chunk", &o.n_prefill_chunk, {.min = 1, .max = 65'536},
          {.help = "Tokens of prompts computed in one step, besides one token of each answer; with "
                   "fewer, answers and cancels wait less and prompts take longer.",
           .unit = "tokens",
           .is_limit = true});
  set.AddBytes(
      "kv-memory", &o.kv_memory_bytes, {.min = 0, .max = 1'000'000 * kGiB},
      {.help = "Memory of the keys and values of answers under way and of prefixes kept for "
               "later; 0B: enough for max-running answers of full length, at most four "
               "times the weights or eight such answers, and no more than the machine has left.",
       .is_limit = true});
  set.AddBytes("window-memory", &o.window_memory_bytes, {.min = 0, .max = 1'000 * kGiB},
               {.help = "Memory of the windows of recent prompts and answers; a conversation that "
                        "goes on behind one of them computes what is new and nothing again.",
                .is_limit = true});
  set.Add("prefix-cache", &o.prefix_cache,
          {.help = "Do not compute again what the beginning of an earlier prompt or answer of the "
                   "same tenant has in common with a prompt."});
  set.AddChoice("prefill", &o.prefill, engine::kPrefillNames,
                {.help = "compact: the second half of the layers sees the last window of a prompt "
                         "only, as the official system does, at half the price. full: all of it."});
  set.AddChoice("replay", &o.replay, engine::kReplayNames,
                {.help = "Rows computed anew behind a found prefix. bounded: one window, as the "
                         "official system does. exact: so many that answers do not depend on what "
                         "was found."});
  set.Add("strict-determinism", &o.strict_determinism,
          {.help = "The same tokens for the same request and seed, whatever the cache holds: "
                   "replay exact."});
  o.compute.Declare(set, OptionReach::kAnywhere);
  set.Add("prep-threads", &o.n_prep_threads, {.min = 1, .max = 64},
          {.help = "Threads that read and render requests; as many again for large or "
                   "compressed bodies."});
}

void DeclareLog(AppOptions& o, OptionSet& set) {
  set.Group("Log");
  set.AddChoice("log-level", &o.log.level, kLogLevels,
                {.help = "Lines below this level are not written.", .value = "LEVEL"});
  set.AddChoice("log-format", &o.log.format, kLogFormats,
                {.help = "Form of a line.", .value = "FORM"});
  set.Add("log-file", &o.log.file,
          {.help = "File that the log is appended to, instead of stderr.", .value = "FILE"});
}

}  // namespace

void AppOptions::Declare(OptionSet& set) {
  DeclareActions(*this, set);
  DeclareModel(*this, set);
  codec.Declare(set);
  serve.Declare(set);
  DeclareEngine(*this, set);
  DeclareLog(*this, set);
}

Status AppOptions::Read(OptionSet& set, const CommandLine& line, FileSystem& files) {
  std::vector<std::string> flags = line.args;
  if (!flags.empty() && !flags[0].starts_with('-')) flags.insert(flags.begin(), "--model");
  SLUICE_TRY(ReadSources(set, flags, line.environment, files));
  return Check();
}

Status AppOptions::ReadSources(OptionSet& set,
                               std::span<const std::string> flags,
                               const Environment& environment,
                               FileSystem& files,
                               std::vector<std::string>* others) {
  SLUICE_TRY(set.ReadFlags(flags, others));
  SLUICE_TRY(set.ReadEnvironment(environment));
  if (!config.empty()) {
    SLUICE_TRY(std::string text, files.ReadWhole(config, limits::kMaxConfigFileBytes));
    SLUICE_TRY(set.ReadFile(text, config));
  }
  codec.FillIn(set);
  if (strict_determinism) replay = engine::Replay::kExact;
  models_dir_of_user = DefaultModelsDir(environment);
  return FindModel(files);
}

Status AppOptions::FindModel(FileSystem& files) {
  const std::string& folder = models_dir.empty() ? models_dir_of_user : models_dir;
  SLUICE_TRY(model, ModelPath(files, model, folder));
  SLUICE_TRY(tokenizer, ModelPath(files, tokenizer, folder));
  return Status::Ok();
}

Status AppOptions::CheckAnswers() const {
  if (!script.empty() || !model.empty()) return Status::Ok();
  const KnownModel& known = KnownModels().front();
  return Status::Invalid(fmt::format(
      "nothing is named that answers. MODEL may be {0} (`sluice pull {0}` fetches its {1} MB\n"
      "first), a folder of DeepSeek-V4.1, Llama or Qwen2 as published, or a .gguf file of the "
      "latter two;\n"
      "--script FILE, such as share/demo.jsonl, answers without a model",
      known.name, known.n_bytes / 1'000'000));
}

int64_t AppOptions::WaitingTokensMax(int32_t n_context) const {
  if (n_waiting_tokens_max > 0) return n_waiting_tokens_max;
  return n_context * std::max<int64_t>(max_running, kDefaultWaitingContexts);
}

Status AppOptions::Check() const {
  if (script_engine && script.empty()) {
    return Status::Invalid("script-engine is set and no script: name one with script");
  }
  if (serve.tls_certificate.empty() != serve.tls_key.empty()) {
    return Status::Invalid("tls-certificate and tls-key go together: only one of them is set");
  }
  const bool has_key = !serve.api_key.empty() || !serve.api_keys_file.empty();
  if (!has_key && !serve.allow_no_key && !serve::IsLoopback(serve.host)) {
    return Status::Invalid(
        fmt::format("host {} can be reached from other machines, and no key is set: set api-key or "
                    "api-keys-file, or allow-no-key to serve everybody",
                    serve.host));
  }
  return compute.Isas().status();
}

}  // namespace sluice::app
