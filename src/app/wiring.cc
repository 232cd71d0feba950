#include "app/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "app/codec_tool.h"
#include "app/engine_thread.h"
#include "app/inspection.h"
#include "base/limits.h"
#include "base/work_pool.h"
#include "cluster/router.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/script_book.h"
#include "model/loader.h"

namespace sluice::app {
namespace {

Result<codec::ScriptBook> ReadScript(FileSystem& files,
                                     const std::string& path,
                                     int32_t n_vocabulary) {
  SLUICE_TRY(std::string text, files.ReadWhole(path, limits::kMaxScriptFileBytes));
  Result<codec::ScriptBook> book = codec::ScriptBook::Parse(text, n_vocabulary);
  if (!book) book.error().AddContext(path);
  return book;
}

// Whether the model is one and fits, before anything of it is read. Takes from the card's context
// what the model does not have.
Status LookAtModel(FileSystem& files,
                   const AppOptions& options,
                   codec::ModelCard& card,
                   MemoryPlan& plan) {
  SLUICE_TRY(Inspection whole, Inspect(files, options.model, {}));
  SLUICE_TRY(whole.binding);
  card.n_context = static_cast<int32_t>(std::min<int64_t>(card.n_context, whole.load.n_context));
  card.n_output_max = std::min(card.n_output_max, card.n_context);
  SLUICE_TRY(Inspection found,
             Inspect(files, options.model,
                     {.n_context = card.n_context,
                      .n_seqs = options.max_running,
                      .kv_bytes = options.kv_memory_bytes,
                      .window_bytes = options.prefix_cache ? options.window_memory_bytes : 0,
                      .n_rows = int64_t{options.max_running} + options.n_prefill_chunk}));
  if (options.kv_memory_bytes == 0) found.ShrinkKv();
  plan = found.plan;
  const int64_t n_least = kv::Layout::BlocksFor(card.n_context);
  if (plan.kv < n_least * plan.kv_block) {
    return Status::InvalidField(
        "kv-memory",
        fmt::format("kv-memory = {} bytes is not enough for one answer of {} tokens: must be at "
                    "least {} bytes; context makes it less",
                    options.kv_memory_bytes, card.n_context, n_least * plan.kv_block));
  }
  Status fits = found.CheckFits();
  if (fits.ok()) return fits;
  return {
      fits.code(),
      fmt::format("{}: {}; --kv-memory, --window-memory, --max-running and --context make it less",
                  options.model, fits.message())};
}

std::array<std::byte, 32> MakeSecret(Entropy& entropy) {
  std::array<std::byte, 32> secret;
  for (size_t at = 0; at < secret.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = entropy.Next();
    std::memcpy(secret.data() + at, &bits, sizeof bits);
  }
  return secret;
}

// Who answers, and how it reads and writes. In the order of building; each may use those above it.
struct Answering {
  Answering(codec::ModelCard card, std::unique_ptr<const codec::deepseek_v41::Format> model_format)
      : model(std::move(card)), format(std::move(model_format)) {}

  static Result<std::unique_ptr<Answering>> Open(const Env& env,
                                                 const AppOptions& options,
                                                 int32_t n_waiting_max);
  Status OpenService(const Env& env,
                     const AppOptions& options,
                     const MemoryPlan& plan,
                     int32_t n_waiting_max);
  codec::PrepareContext ContextFor(const AppOptions& options);

  const codec::ModelCard model;
  const std::unique_ptr<const codec::deepseek_v41::Format> format;
  std::optional<codec::ScriptBook> script;  // absent: a model answers
  EventBell bell;
  std::optional<EngineThread::Service> service;
};

Status Answering::OpenService(const Env& env,
                              const AppOptions& options,
                              const MemoryPlan& plan,
                              int32_t n_waiting_max) {
  if (!options.script.empty()) {
    SLUICE_TRY(codec::ScriptBook book, ReadScript(env.fs, options.script, format->n_tokens()));
    script.emplace(std::move(book));
    service.emplace(
        std::in_place_type<wire::ScriptedService>,
        wire::ScriptedService::Params{
            .max_running = options.max_running, .max_waiting = n_waiting_max, .bell = bell.bell()});
    return Status::Ok();
  }
  SLUICE_TRY(model::Loader loader, model::Loader::Open(env.fs, options.model));
  if (loader.n_vocab() != format->n_tokens()) {
    return Status::Invalid(
        fmt::format("tokenizer.json has {} tokens and the model {}: it belongs to another",
                    format->n_tokens(), loader.n_vocab()));
  }
  // Where they are not shown, they are not sampled either (spec recipe.md §8.1).
  std::vector<TokenId> banned;
  if (options.codec.ToProfile().remove_stray_specials) {
    banned.assign(format->stray().begin(), format->stray().end());
  }
  service.emplace(std::in_place_type<engine::Engine>,
                  engine::Engine::Params{.max_running = options.max_running,
                                         .max_waiting = n_waiting_max,
                                         .n_context = model.n_context,
                                         .n_prompt_rows = options.n_prefill_chunk,
                                         .n_blocks = static_cast<int32_t>(plan.kv / plan.kv_block),
                                         .prefix_cache = options.prefix_cache,
                                         .n_windows = static_cast<int32_t>(plan.n_windows),
                                         .prefill = options.prefill,
                                         .replay = options.replay,
                                         .n_threads = options.compute.NumThreads(),
                                         .arithmetic = options.compute.arithmetic,
                                         .banned = std::move(banned),
                                         .seed = env.entropy.Next(),
                                         .cache_secret = MakeSecret(env.entropy),
                                         .clock = &env.clock,
                                         .bell = bell.bell()},
                  std::move(loader));
  return Status::Ok();
}

Result<std::unique_ptr<Answering>> Answering::Open(const Env& env,
                                                   const AppOptions& options,
                                                   int32_t n_waiting_max) {
  codec::ModelCard card = {.name = options.model_name,
                           .aliases = options.model_aliases,
                           .n_context = options.n_context,
                           .n_output_max = options.n_output_max};
  MemoryPlan plan;
  if (options.script.empty()) SLUICE_TRY(LookAtModel(env.fs, options, card, plan));
  std::string tokenizer;
  SLUICE_TRY(auto format, ReadFormat(env.fs, options, tokenizer));
  auto answering = std::make_unique<Answering>(std::move(card), std::move(format));
  SLUICE_TRY(answering->OpenService(env, options, plan, n_waiting_max));
  return answering;
}

codec::PrepareContext Answering::ContextFor(const AppOptions& options) {
  return {.model = model,
          .format = *format,
          .script = script ? &*script : nullptr,
          .strict = options.serve.strict,
          .default_thinking = options.default_thinking,
          .profile = options.codec.ToProfile()};
}

}  // namespace

// In the order of building; each may use those above it.
struct Wiring::Parts {
  Parts(const AppOptions& options, std::unique_ptr<Answering> who)
      : answering(std::move(who)),
        prep(options.n_prep_threads, options.serve.max_requests),
        prep_large(options.n_prep_threads, options.serve.max_requests) {}

  const std::unique_ptr<Answering> answering;
  std::optional<cluster::Router> router;
  std::unique_ptr<serve::Server> server;
  // Below the server, so that their threads have ended before it goes: a job points into it.
  WorkPool prep;
  WorkPool prep_large;
  std::optional<EngineThread> engine;
};

Result<std::unique_ptr<Wiring>> Wiring::Build(const Env& env, const AppOptions& options) {
  SLUICE_TRY(auto answering, Answering::Open(env, options, options.serve.max_requests));
  auto parts = std::make_unique<Parts>(options, std::move(answering));
  Answering& who = *parts->answering;
  parts->router.emplace(cluster::Router::Params{.max_waiting = options.serve.max_requests},
                        AsTokenService(*who.service));
  SLUICE_TRY(parts->server, serve::Server::Open(options.serve, {.env = env,
                                                                .service = *parts->router,
                                                                .prep = parts->prep,
                                                                .prep_large = parts->prep_large,
                                                                .prepare = who.ContextFor(options),
                                                                .version = std::string(kVersion)}));
  const Bell stop = {.ring = [](void* server) { static_cast<serve::Server*>(server)->Stop(); },
                     .context = parts->server.get()};
  parts->engine.emplace(*who.service, who.bell, env.clock, EngineThread::Bells{.failed = stop});
  return std::unique_ptr<Wiring>(new Wiring(std::move(parts)));
}

Wiring::Wiring(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Wiring::~Wiring() = default;

serve::Server& Wiring::server() { return *parts_->server; }
int32_t Wiring::n_context() const { return parts_->answering->model.n_context; }
Status Wiring::failure() const { return parts_->engine->failure(); }

struct LocalService::Parts {
  Parts(const Env& given_env, const AppOptions& options, std::unique_ptr<Answering> who)
      : clock(given_env.clock),
        answering(std::move(who)),
        context(answering->ContextFor(options)) {}

  const Clock& clock;
  const std::unique_ptr<Answering> answering;
  const codec::PrepareContext context;
  EventBell news;  // of loading
  std::optional<EngineThread> engine;
};

Result<std::unique_ptr<LocalService>> LocalService::Open(const Env& env,
                                                         const AppOptions& options,
                                                         int32_t n_waiting_max) {
  SLUICE_TRY(auto answering, Answering::Open(env, options, n_waiting_max));
  auto parts = std::make_unique<Parts>(env, options, std::move(answering));
  return std::unique_ptr<LocalService>(new LocalService(std::move(parts)));
}

LocalService::LocalService(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LocalService::~LocalService() = default;

Status LocalService::Start() {
  Answering& who = *parts_->answering;
  const Bell news = parts_->news.bell();
  parts_->engine.emplace(*who.service, who.bell, parts_->clock,
                         EngineThread::Bells{.loaded = news, .failed = news});
  while (service().Load().loading && parts_->engine->failure().ok()) {
    parts_->news.Wait(Time::Max(), parts_->clock);
  }
  return parts_->engine->failure();
}

wire::TokenService& LocalService::service() { return AsTokenService(*parts_->answering->service); }
codec::PrepareContext LocalService::context() const { return parts_->context; }
codec::PrepareContext LocalService::without_script() const {
  codec::PrepareContext context = parts_->context;
  context.script = nullptr;
  return context;
}

}  // namespace sluice::app
