#include "app/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

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
Status LookAtModel(FileSystem& files, const AppOptions& options, codec::ModelCard& card) {
  SLUICE_TRY(Inspection whole, Inspect(files, options.model, {}));
  SLUICE_TRY(whole.binding);
  card.n_context = static_cast<int32_t>(std::min<int64_t>(card.n_context, whole.load.n_context));
  card.n_output_max = std::min(card.n_output_max, card.n_context);
  SLUICE_TRY(const Inspection found,
             Inspect(files, options.model,
                     {.n_context = card.n_context,
                      .n_seqs = options.max_running,
                      .n_rows = int64_t{options.max_running} + options.n_prefill_chunk}));
  Status fits = found.CheckFits();
  if (fits.ok()) return fits;
  return {fits.code(), fmt::format("{}: {}; --max-running and --context make it less",
                                   options.model, fits.message())};
}

// Who answers, and how it reads and writes. In the order of building; each may use those above it.
struct Answering {
  Answering(codec::ModelCard card, std::unique_ptr<const codec::deepseek_v41::Format> model_format)
      : model(std::move(card)), format(std::move(model_format)) {}

  static Result<std::unique_ptr<Answering>> Open(const Env& env,
                                                 const AppOptions& options,
                                                 int32_t n_waiting_max);
  Status OpenService(const Env& env, const AppOptions& options, int32_t n_waiting_max);
  codec::PrepareContext ContextFor(const AppOptions& options);

  const codec::ModelCard model;
  const std::unique_ptr<const codec::deepseek_v41::Format> format;
  std::optional<codec::ScriptBook> script;  // absent: a model answers
  EventBell bell;
  std::optional<EngineThread::Service> service;
};

Status Answering::OpenService(const Env& env, const AppOptions& options, int32_t n_waiting_max) {
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
  service.emplace(std::in_place_type<engine::Engine>,
                  engine::Engine::Params{.max_running = options.max_running,
                                         .max_waiting = n_waiting_max,
                                         .n_context = model.n_context,
                                         .n_prompt_rows = options.n_prefill_chunk,
                                         .n_threads = options.compute.NumThreads(),
                                         .arithmetic = options.compute.arithmetic,
                                         .seed = env.entropy.Next(),
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
  if (options.script.empty()) SLUICE_TRY(LookAtModel(env.fs, options, card));
  std::string tokenizer;
  SLUICE_TRY(auto format, ReadFormat(env.fs, options, tokenizer));
  auto answering = std::make_unique<Answering>(std::move(card), std::move(format));
  SLUICE_TRY(answering->OpenService(env, options, n_waiting_max));
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
