// AppOptions: everything `sluice serve` can be told: what the HTTP server has, and what only this
// program knows.
//
// Thread-compatible; immutable after start.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/codec_options.h"
#include "app/command.h"
#include "app/compute_options.h"
#include "base/log.h"
#include "base/options.h"
#include "base/result.h"
#include "engine/replay.h"
#include "env/file_system.h"
#include "serve/options.h"

namespace sluice::app {

inline constexpr int64_t kDefaultWaitingContexts = 8;

struct AppOptions {
  // Actions.
  bool help = false;
  bool print_config = false;
  std::string config;

  // Model: one of these answers. Both: the model runs, and what it samples is the script's.
  std::string model;
  std::string models_dir;          // empty: models_dir_of_user
  std::string models_dir_of_user;  // of the environment; no option
  std::string script;
  bool script_engine = false;
  std::string tokenizer;
  std::string model_name;  // empty: NameModel says
  std::vector<std::string> model_aliases = {"deepseek-v4-flash", "DeepSeek-V4.1-Flash"};
  int32_t n_context = 1'048'576;
  int32_t n_output_max = 393'216;
  bool default_thinking = true;
  CodecOptions codec;

  // Engine and host work.
  int32_t max_running = 256;
  int32_t n_waiting_max = 512;
  int64_t n_waiting_tokens_max = 0;  // 0: WaitingTokensMax says
  // Of the reference operators mini-b takes 55 ms a token of a prompt at 8, 36 at 64, 33 at 512.
  int32_t n_prefill_chunk = 64;
  int64_t kv_memory_bytes = 0;  // 0: what there is
  int64_t window_memory_bytes = 256 * kMiB;
  bool prefix_cache = true;
  engine::Prefill prefill = engine::Prefill::kCompact;
  engine::Replay replay = engine::Replay::kBounded;
  bool strict_determinism = false;
  ComputeOptions compute;
  int32_t n_prep_threads = 1;

  LogOptions log;
  serve::ServeOptions serve;

  void Declare(OptionSet& set);

  // Flags, then environment, then the file that they name; then what no single option can say. The
  // first argument may be the model's folder, without its flag.
  Status Read(OptionSet& set, const CommandLine& line, FileSystem& files);
  // The same without the last; `others` as OptionSet::ReadFlags has it.
  Status ReadSources(OptionSet& set,
                     std::span<const std::string> flags,
                     const Environment& environment,
                     FileSystem& files,
                     std::vector<std::string>* others = nullptr);

  // Makes `model`, if it names a known model, the path of the file that was fetched.
  Status FindModel(FileSystem& files);

  // Whether requests go through the engine: a model runs, or what stands for one.
  bool has_engine() const { return !model.empty() || script_engine; }

  // Whether something answers, for commands that need it.
  Status CheckAnswers() const;
  // What may wait of prompts when answers have n_context tokens at most: as set, or as much as
  // kDefaultWaitingContexts contexts, or one for each answer at a time if these are more.
  int64_t WaitingTokensMax(int32_t n_context) const;

  // What concerns several options: half a TLS configuration, an open door.
  Status Check() const;
};

}  // namespace sluice::app
