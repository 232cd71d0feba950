#include "app/wiring.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "app/cut_tokenizer.h"
#include "base/limits.h"
#include "base/work_pool.h"
#include "cluster/router.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/script_book.h"
#include "env/posix/event_bell.h"
#include "wire/scripted_service.h"

namespace sluice::app {
namespace {

// The thread of one token service: steps it when it is due and when its bell rings.
class EngineThread {
 public:
  EngineThread(wire::ScriptedService& service, EventBell& bell, const Clock& clock)
      : service_(service), bell_(bell), clock_(clock), thread_([this] { Run(); }) {}
  EngineThread(const EngineThread&) = delete;

  // Every request ends with a terminal event before the thread does.
  ~EngineThread() {
    stopping_.store(true, std::memory_order_release);
    bell_.Ring();
    thread_.join();
  }

 private:
  void Run() noexcept {
    while (!stopping_.load(std::memory_order_acquire)) {
      bell_.Wait(service_.Step(clock_.Now()), clock_);
    }
    service_.CancelAll();
    while (!service_.idle()) service_.Step(clock_.Now());
  }

  wire::ScriptedService& service_;
  EventBell& bell_;
  const Clock& clock_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses the others
};

Result<codec::ScriptBook> ReadScript(FileSystem& files,
                                     const std::string& path,
                                     int32_t n_vocabulary) {
  SLUICE_TRY(std::string text, files.ReadWhole(path, limits::kMaxScriptFileBytes));
  Result<codec::ScriptBook> book = codec::ScriptBook::Parse(text, n_vocabulary);
  if (!book) book.error().AddContext(path);
  return book;
}

// Of tokenizer.json; of the small one that is built in without a path.
Result<std::unique_ptr<const codec::deepseek_v41::Format>> ReadFormat(FileSystem& files,
                                                                      const std::string& path) {
  std::string text;
  if (!path.empty()) {
    SLUICE_TRY(text, files.ReadWhole(path, limits::kMaxTokenMapBytes));
  }
  Result<token::Vocabulary> vocabulary =
      token::Vocabulary::Parse(path.empty() ? kCutTokenizer : text);
  if (!vocabulary) return std::move(vocabulary.error().AddContext(path));
  auto format = codec::deepseek_v41::Format::Make(std::move(*vocabulary));
  if (!format) format.error().AddContext(path);
  return format;
}

}  // namespace

// In the order of building; each may use those above it.
struct Wiring::Parts {
  Parts(const AppOptions& options,
        codec::ModelCard card,
        std::unique_ptr<const codec::deepseek_v41::Format> model_format,
        codec::ScriptBook book)
      : model(std::move(card)),
        format(std::move(model_format)),
        script(std::move(book)),
        service({.max_running = options.max_running,
                 .max_waiting = options.serve.max_requests,
                 .bell = bell.bell()}),
        router({.max_waiting = options.serve.max_requests}, service),
        prep(options.n_prep_threads, options.serve.max_requests),
        prep_large(options.n_prep_threads, options.serve.max_requests) {}

  const codec::ModelCard model;
  const std::unique_ptr<const codec::deepseek_v41::Format> format;
  codec::ScriptBook script;
  EventBell bell;
  wire::ScriptedService service;
  cluster::Router router;
  std::unique_ptr<serve::Server> server;
  // Below the server, so that their threads have ended before it goes: a job points into it.
  WorkPool prep;
  WorkPool prep_large;
  std::optional<EngineThread> engine;
};

Result<std::unique_ptr<Wiring>> Wiring::Build(const Env& env, const AppOptions& options) {
  codec::ModelCard card = {.name = options.model_name,
                           .aliases = options.model_aliases,
                           .n_context = options.n_context,
                           .n_output_max = options.n_output_max};
  SLUICE_TRY(auto format, ReadFormat(env.fs, options.tokenizer));
  SLUICE_TRY(codec::ScriptBook book, ReadScript(env.fs, options.script, format->n_tokens()));
  auto parts =
      std::make_unique<Parts>(options, std::move(card), std::move(format), std::move(book));
  SLUICE_TRY(
      parts->server,
      serve::Server::Open(options.serve, {.env = env,
                                          .service = parts->router,
                                          .prep = parts->prep,
                                          .prep_large = parts->prep_large,
                                          .prepare = {.model = parts->model,
                                                      .format = *parts->format,
                                                      .script = &parts->script,
                                                      .strict = options.serve.strict,
                                                      .default_thinking = options.default_thinking},
                                          .version = std::string(kVersion)}));
  parts->engine.emplace(parts->service, parts->bell, env.clock);
  return std::unique_ptr<Wiring>(new Wiring(std::move(parts)));
}

Wiring::Wiring(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Wiring::~Wiring() = default;

serve::Server& Wiring::server() { return *parts_->server; }

}  // namespace sluice::app
