#include "app/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "app/engine_thread.h"
#include "app/inspection.h"
#include "app/model_format.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/work_pool.h"
#include "cluster/router.h"
#include "codec/script_book.h"
#include "model/loader.h"
#include "model/stub.h"

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

// Where memory goes.
struct Planned {
  MemoryPlan plan;
  std::string text;  // for people
  // Of a model that will be loaded.
  int64_t n_bytes = 0;
  int64_t available = -1;  // memory; -1: nobody knows
};

// KV blocks of the model without arithmetic, unless kv-memory says how many: 4 million tokens.
constexpr int64_t kStubBlocks = 65'536;

Status CheckKvMemory(const AppOptions& options, int32_t n_context, const MemoryPlan& plan) {
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  if (plan.kv / plan.kv_block > kMostBlocks || plan.n_windows > kMostBlocks) {
    return Status::InvalidField(
        "kv-memory",
        fmt::format("kv-memory and window-memory may hold {} blocks and as many windows; "
                    "these are {} and {}",
                    kMostBlocks, plan.kv / plan.kv_block, plan.n_windows));
  }
  const int64_t n_least = kv::Layout::BlocksFor(n_context);
  if (plan.kv >= n_least * plan.kv_block) return Status::Ok();
  return Status::InvalidField(
      "kv-memory",
      fmt::format("kv-memory = {} bytes is not enough for one answer of {} tokens: must be at "
                  "least {} bytes; context makes it less",
                  options.kv_memory_bytes, n_context, n_least * plan.kv_block));
}

// Blocks and slots of a model without arithmetic.
Result<Planned> PlanOfStub(const AppOptions& options, const codec::ModelCard& card) {
  const kv::Layout layout = model::StubModel::MakeLayout();
  MemoryPlan plan{.kv_block = layout.block_bytes(), .slot = layout.slot_bytes()};
  plan.kv = options.kv_memory_bytes > 0 ? options.kv_memory_bytes : kStubBlocks * plan.kv_block;
  plan.n_windows = options.prefix_cache ? options.window_memory_bytes / plan.slot : 0;
  plan.slots = plan.slot * (options.max_running + plan.n_windows);
  SLUICE_TRY(CheckKvMemory(options, card.n_context, plan));
  return Planned{.plan = plan, .text = plan.Text(std::nullopt)};
}

// Whether the model is one and fits, before anything of it is read. Takes from the card's context
// what the model does not have.
Status LookAtModel(FileSystem& files,
                   const AppOptions& options,
                   codec::ModelCard& card,
                   Planned& planned) {
  SLUICE_TRY(Inspection whole, Inspect(files, options.model, {}));
  SLUICE_TRY(whole.binding);
  card.n_context = static_cast<int32_t>(std::min<int64_t>(card.n_context, whole.load.n_context));
  SLUICE_TRY(Inspection found,
             Inspect(files, options.model,
                     {.n_context = card.n_context,
                      .n_seqs = options.max_running,
                      .kv_bytes = options.kv_memory_bytes,
                      .window_bytes = options.prefix_cache ? options.window_memory_bytes : 0,
                      .n_rows = int64_t{options.max_running} + options.n_prefill_chunk}));
  if (options.kv_memory_bytes == 0) found.ShrinkKv();
  planned = {.plan = found.plan,
             .text = found.plan.Text(found.machine),
             .n_bytes = found.total().n_bytes,
             .available = found.machine ? found.machine->available : -1};
  SLUICE_TRY(CheckKvMemory(options, card.n_context, found.plan));
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
  Answering(codec::ModelCard card, codec::OwnedFormat model_format)
      : model(std::move(card)), owned_format(std::move(model_format)), format(owned_format.get()) {}

  static Result<std::unique_ptr<Answering>> Open(const Env& env,
                                                 const AppOptions& options,
                                                 int32_t n_waiting_max);
  Status OpenService(const Env& env,
                     const AppOptions& options,
                     const MemoryPlan& plan,
                     int32_t n_waiting_max);
  engine::Engine::Params EngineParams(const Env& env,
                                      const AppOptions& options,
                                      const MemoryPlan& plan,
                                      int32_t n_waiting_max);
  codec::PrepareContext ContextFor(const AppOptions& options);

  const codec::ModelCard model;
  const codec::OwnedFormat owned_format;
  const codec::Format format;
  IsaChoice isas;
  std::string memory;                       // where it goes, for people
  std::optional<codec::ScriptBook> script;  // absent: a model answers
  EventBell bell;
  std::optional<EngineThread::Service> service;
};

Status Answering::OpenService(const Env& env,
                              const AppOptions& options,
                              const MemoryPlan& plan,
                              int32_t n_waiting_max) {
  if (!options.script.empty()) {
    SLUICE_TRY(codec::ScriptBook book, ReadScript(env.fs, options.script, format.n_tokens()));
    script.emplace(std::move(book));
  }
  if (!options.has_engine()) {
    service.emplace(
        std::in_place_type<wire::ScriptedService>,
        wire::ScriptedService::Params{
            .max_running = options.max_running, .max_waiting = n_waiting_max, .bell = bell.bell()});
    return Status::Ok();
  }
  const engine::Engine::Params params = EngineParams(env, options, plan, n_waiting_max);
  if (options.model.empty()) {
    service.emplace(
        std::in_place_type<engine::Engine>, params,
        model::LoadedModel{.model = std::make_unique<model::StubModel>(
                               model::StubModel::Params{.n_vocab = format.n_tokens(),
                                                        .n_context = model.n_context,
                                                        .eos = format.ends().front()})});
    return Status::Ok();
  }
  SLUICE_TRY(model::Loader loader, model::Loader::Open(env.fs, options.model));
  SLUICE_TRY(loader.KeepTokens(format.n_tokens()));
  service.emplace(std::in_place_type<engine::Engine>, params, std::move(loader));
  return Status::Ok();
}

engine::Engine::Params Answering::EngineParams(const Env& env,
                                               const AppOptions& options,
                                               const MemoryPlan& plan,
                                               int32_t n_waiting_max) {
  engine::Engine::Params params{.max_running = options.max_running,
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
                                .isas = isas,
                                .seed = env.entropy.Next(),
                                .cache_secret = MakeSecret(env.entropy),
                                .clock = &env.clock,
                                .bell = bell.bell()};
  // Where they are not shown, they are not sampled either (spec recipe.md §8.1).
  if (options.codec.ToProfile().remove_stray_specials) {
    params.banned.assign(format.stray().begin(), format.stray().end());
  }
  return params;
}

Result<std::unique_ptr<Answering>> Answering::Open(const Env& env,
                                                   const AppOptions& options,
                                                   int32_t n_waiting_max) {
  codec::ModelCard card = {.n_context = options.n_context, .n_output_max = options.n_output_max};
  SLUICE_TRY(IsaChoice isas, options.compute.Isas());
  Planned planned;
  if (!options.model.empty()) {
    SLUICE_TRY(LookAtModel(env.fs, options, card, planned));
  } else if (options.script_engine) {
    SLUICE_TRY(planned, PlanOfStub(options, card));
  }
  SLUICE_TRY(ModelFormat format, ReadFormat(env.fs, options));
  NameModel(options, format, card);
  auto answering = std::make_unique<Answering>(std::move(card), std::move(format.format));
  answering->memory = std::move(planned.text);
  answering->isas = std::move(isas);
  SLUICE_TRY(answering->OpenService(env, options, planned.plan, n_waiting_max));
  if (!options.model.empty()) {
    Log(LogLevel::kInfo, "loading the model: its files are mapped and read once, front to back",
        {{"bytes", planned.n_bytes},
         {"file_system", env.fs.KindOf(options.model)},
         {"available_bytes", planned.available}});
  }
  return answering;
}

codec::PrepareContext Answering::ContextFor(const AppOptions& options) {
  return {.model = model,
          .format = format,
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
  // Nobody waits behind the router: it hands on what finds a place.
  SLUICE_TRY(auto answering, Answering::Open(env, options, /*n_waiting_max=*/0));
  auto parts = std::make_unique<Parts>(options, std::move(answering));
  Answering& who = *parts->answering;
  parts->router.emplace(
      cluster::Router::Params{
          .queue = {.n_requests_max = options.n_waiting_max,
                    .n_tokens_max = options.WaitingTokensMax(who.model.n_context)},
          .bell = who.bell.bell()},
      env.clock, AsTokenService(*who.service));
  SLUICE_TRY(parts->server, serve::Server::Open(options.serve, {.env = env,
                                                                .service = *parts->router,
                                                                .prep = parts->prep,
                                                                .prep_large = parts->prep_large,
                                                                .prepare = who.ContextFor(options),
                                                                .version = std::string(kVersion)}));
  const Bell stop = {.ring = [](void* server) { static_cast<serve::Server*>(server)->Stop(); },
                     .context = parts->server.get()};
  parts->engine.emplace(*who.service, &*parts->router, who.bell, env.clock,
                        EngineThread::Bells{.failed = stop});
  return std::unique_ptr<Wiring>(new Wiring(std::move(parts)));
}

Wiring::Wiring(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Wiring::~Wiring() = default;

serve::Server& Wiring::server() { return *parts_->server; }
const std::string& Wiring::model_name() const { return parts_->answering->model.name; }
int32_t Wiring::n_context() const { return parts_->answering->model.n_context; }
const std::string& Wiring::memory() const { return parts_->answering->memory; }
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
  parts_->engine.emplace(*who.service, /*router=*/nullptr, who.bell, parts_->clock,
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
