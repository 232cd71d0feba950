// `sluice serve`: the HTTP API until a signal ends it.

#include <fmt/format.h>

#include <algorithm>

#include "app/app_options.h"
#include "app/command.h"
#include "app/signals.h"
#include "app/wiring.h"
#include "codec/dialect.h"
#include "env/posix/posix_env.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "serve";

constexpr std::string_view kHelp =
    "Serves the HTTP API until SIGTERM or Ctrl-C; a second one stops at once. SIGHUP reads\n"
    "the keys again.\n"
    "\n"
    "usage: sluice serve MODEL [--flag value ...]           a folder as published answers\n"
    "       sluice serve --script FILE [--flag value ...]   a script answers\n"
    "\n"
    "MODEL is loaded with the port already open: /ready says how far it is, and requests are\n"
    "refused until it is done. Answers and the prefix cache share --kv-memory, which is\n"
    "fixed from the start.\n"
    "\n"
    "Each flag is also a key of the config file and an environment variable: --max-body 1MiB,\n"
    "max-body = \"1MiB\", SLUICE_MAX_BODY=1MiB. A flag goes before the environment, that before\n"
    "the file. --no-NAME turns a switch off.\n"
    "\n";

std::string UrlHost(std::string_view host) {
  return host.find(':') == std::string_view::npos ? std::string(host) : fmt::format("[{}]", host);
}

bool HasDialect(std::string_view name) {
  const auto dialects = codec::Dialects();
  return std::any_of(dialects.begin(), dialects.end(),
                     [name](const codec::Dialect& d) { return d.name == name; });
}

// What is run, and what its answers are taken from.
std::string AnswersFrom(const AppOptions& options) {
  if (options.script.empty()) return options.model;
  if (!options.model.empty()) return fmt::format("{}, run on {}", options.script, options.model);
  return options.script_engine ? options.script + ", run on a model without arithmetic"
                               : options.script;
}

// The first two lines are read by programs that start us on port 0.
std::string Banner(const AppOptions& options, const serve::Server& server, const Wiring& wiring) {
  const std::string scheme = options.serve.tls_certificate.empty() ? "http" : "https";
  const std::string& host = options.serve.host;
  // Every address is one to listen on, not one to connect to.
  const std::string reached = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
  const std::string url = fmt::format("{}://{}:{}", scheme, UrlHost(reached), server.port());
  const bool has_key = !options.serve.api_key.empty() || !options.serve.api_keys_file.empty();
  std::string text = fmt::format("listening on {}://{}:{}\n", scheme, UrlHost(host), server.port());
  if (server.admin_port() >= 0) {
    text += fmt::format("admin on http://127.0.0.1:{}\n", server.admin_port());
  }
  text += fmt::format("\nsluice {}: model {}, answers from {}\n", kVersion, wiring.model_name(),
                      AnswersFrom(options));
  if (options.has_engine()) {
    text += fmt::format("at most {} answers of {} tokens at once{}\n", options.max_running,
                        wiring.n_context(), options.model.empty() ? "" : "; loading");
    text += fmt::format("memory: {}\n", wiring.memory());
  }
  text += fmt::format(
      "\n  curl -N {}/v1/chat/completions -H 'content-type: application/json' \\\n"
      "{}    -d '{{\"model\": \"{}\", \"stream\": true, "
      "\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'\n\n",
      url, has_key ? "    -H \"authorization: Bearer $SLUICE_API_KEY\" \\\n" : "",
      wiring.model_name());
  text += fmt::format("base URL for OpenAI clients     {}/v1\n", url);
  if (HasDialect("messages")) text += fmt::format("base URL for Anthropic clients  {}\n", url);
  return text + "stop with Ctrl-C: once lets running answers finish, twice stops at once\n";
}

int Serve(const Env& env, const AppOptions& options) {
  BlockSignals();
  if (Status status = InitLog(options.log); !status.ok()) return Fail(kCommand, status);
  Result<std::unique_ptr<Wiring>> wiring = Wiring::Build(env, options);
  if (!wiring) return Fail(kCommand, wiring.error());
  serve::Server& server = (*wiring)->server();

  const SignalThread signals(server);
  Print(Banner(options, server, **wiring));
  const Status status = server.Run();
  FlushLog();
  if (const Status failure = (*wiring)->failure(); !failure.ok()) return Fail(kCommand, failure);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace

int ServeMain(const CommandLine& line) {
  const PosixEnv posix;
  AppOptions options;
  OptionSet set;
  options.Declare(set);
  Status status = options.Read(set, line, posix.env().fs);
  if (options.help) {
    Print(kHelp);
    Print(set.Help());
    return kDone;
  }
  if (!status.ok()) return FailUsage(kCommand, status);
  if (options.print_config) {
    Print(set.PrintConfig());
    return kDone;
  }
  if (status = options.CheckAnswers(); !status.ok()) return FailUsage(kCommand, status);
  return Serve(posix.env(), options);
}

}  // namespace sluice::app
