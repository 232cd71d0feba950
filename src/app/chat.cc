// `sluice chat`: talking to a model in the terminal.
//
// In this process: no port, no second program, and what is read and shown goes through the codec
// that clients of the server get. One turn at a time.

#include <fmt/format.h>

#include <optional>

#include "app/chat_history.h"
#include "app/chat_turn.h"
#include "app/chat_view.h"
#include "app/codec_tool.h"
#include "app/command.h"
#include "app/line_editor.h"
#include "app/signals.h"
#include "app/wiring.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "env/posix/posix_env.h"
#include "env/posix/terminal.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "chat";

constexpr std::string_view kHelp =
    "Talks to a model in the terminal.\n"
    "\n"
    "usage: sluice chat MODEL [--once TEXT] [--system TEXT] [--think EFFORT] [--tools FILE]\n"
    "       sluice chat --script FILE ...\n"
    "\n"
    "Ctrl-C ends an answer, and at an empty prompt, twice, the talk; so does Ctrl-D. Lines of a\n"
    "talk that begin with / are commands: /help lists them.\n"
    "\n";

constexpr std::string_view kCommands =
    "/clear          forget the talk so far\n"
    "/think EFFORT   on, off, minimal, low, medium, high, xhigh, max, or 1 to 100\n"
    "/system TEXT    what the model is told before anything else; without TEXT nothing\n"
    "/help           this\n"
    "/quit           leave, as Ctrl-D does\n";

struct Options {
  std::string once;
  std::string system;
  std::string think;
  std::string tools;
  int32_t n_max = 0;
  double temperature = -1;

  void Declare(OptionSet& set) {
    const auto text = [](std::string_view help, std::string_view value) {
      return OptionText{
          .help = help, .value = value, .has_lines = true, .reach = OptionReach::kFlagOnly};
    };
    set.Add("once", &once, text("Say this, print the answer, and leave.", "TEXT"));
    set.Add("system", &system, text("What the model is told before anything else.", "TEXT"));
    set.Add("think", &think,
            text("Thinking: on, off, low, medium, high, max, 1 to 100.", "EFFORT"));
    set.Add("tools", &tools,
            text("JSON file with a list of tools, as in a request; what a call gives is asked for.",
                 "FILE"));
    set.Add("max-tokens", &n_max, {.min = 0, .max = 393'216},
            {.help = "Tokens of an answer; 0: as many as a server gives.",
             .reach = OptionReach::kFlagOnly});
    set.Add("temperature", &temperature, NumberRange{.min = -1, .max = 2},
            {.help = "Of the draws; -1: as a server draws.", .reach = OptionReach::kFlagOnly});
  }
};

Status ReadOptions(FileSystem& files, const Options& options, ChatHistory& history) {
  history.system = options.system;
  history.n_max = options.n_max;
  history.temperature = options.temperature;
  if (!options.think.empty()) {
    Result<std::string> effort = ReadEffort(options.think);
    if (!effort) return std::move(effort.error().AddContext("--think"));
    history.effort = *effort;
  }
  if (options.tools.empty()) return Status::Ok();
  SLUICE_TRY(const std::string text, files.ReadWhole(options.tools, limits::kMaxToolInputBytes));
  Result<Json> json = Json::Parse(text);
  if (!json) return std::move(json.error().AddContext(options.tools));
  history.tools = json->root().ToText();
  return Status::Ok();
}

// A talk. Owned by the command's thread.
class Talk {
 public:
  Talk(ChatTurns& turns, ChatHistory& history, LineEditor& editor)
      : turns_(turns), history_(history), editor_(editor) {}

  // Until somebody leaves.
  void Run() {
    if (editor_.is_terminal()) Print(Dim("/help lists commands; Ctrl-D leaves") + "\n");
    bool was_cancelled = false;
    std::string line;
    while (true) {
      const LineEditor::Got got = editor_.Read("> ", line);
      if (got == LineEditor::Got::kEnd) break;
      const bool is_cancel = got == LineEditor::Got::kCancelled;
      if (is_cancel && line.empty() && was_cancelled) break;
      was_cancelled = is_cancel && line.empty();
      if (was_cancelled) Print(Dim("Ctrl-C once more leaves") + "\n");
      if (is_cancel || line.empty()) continue;
      if (line.starts_with('/')) {
        if (!Obey(line)) break;
        continue;
      }
      history_.AddUser(line);
      Answer(history_.size() - 1);
    }
    if (editor_.is_terminal()) Print("\n");
  }

 private:
  // Answers until the model calls nothing more. What is cancelled or fails is forgotten as a whole.
  void Answer(size_t n_before) {
    while (true) {
      Result<ChatAnswer> answer = turns_.Run(history_, editor_.is_terminal());
      if (!answer) {
        history_.Forget(n_before);
        Complain(fmt::format("sluice {}: {}\n", kCommand, answer.error().message()));
        return;
      }
      history_.AddAnswer(*answer);
      if (answer->calls.empty()) return;
      for (const ChatCall& call : answer->calls) {
        std::string result;
        const auto got = editor_.Read(fmt::format("{} gives> ", TerminalText(call.name)), result);
        if (got != LineEditor::Got::kLine) return history_.Forget(n_before);
        history_.AddResult(call, result);
      }
    }
  }

  // False: leave.
  bool Obey(std::string_view line) {
    const size_t space = line.find(' ');
    const std::string_view name = line.substr(0, space);
    const std::string_view rest = space == line.npos ? "" : line.substr(space + 1);
    if (name == "/quit" || name == "/exit") return false;
    if (name == "/clear") {
      history_.Clear();
    } else if (name == "/system") {
      history_.system = rest;
    } else if (name == "/think") {
      const Result<std::string> effort = ReadEffort(rest);
      if (effort) history_.effort = *effort;
      if (!effort) Print(fmt::format("/think takes {}\n", effort.error().message()));
    } else {
      if (name != "/help") Print(fmt::format("there is no {}\n", TerminalText(name)));
      Print(kCommands);
    }
    return true;
  }

  ChatTurns& turns_;
  ChatHistory& history_;
  LineEditor& editor_;
};

Status Chat(const Env& env, const Options& options, const AppOptions& serve) {
  ChatHistory history;
  SLUICE_TRY(ReadOptions(env.fs, options, history));
  SLUICE_TRY(auto turns, ChatTurns::Open(env, serve));
  history.model = turns->model_name();
  if (options.once.empty()) {
    LineEditor editor;
    if (editor.is_terminal()) IgnoreInterrupts();
    Talk(*turns, history, editor).Run();
    return Status::Ok();
  }
  history.AddUser(options.once);
  const Result<ChatAnswer> answer = turns->Run(history, StdoutIsTerminal());
  return answer ? Status::Ok() : answer.error();
}

}  // namespace

int ChatMain(const CommandLine& line) {
  const PosixEnv posix;
  Options options;
  AppOptions serve;
  serve.max_running = 1;  // unless told otherwise: nobody else asks
  serve.log.level = LogLevel::kWarn;
  OptionSet set;
  options.Declare(set);
  std::optional<std::string> model;
  const ToolUsage usage{.command = kCommand, .help = kHelp, .line = line, .files = posix.env().fs};
  if (const auto code = ReadToolUsage(usage, set, serve, model)) return *code;
  if (model && serve.model.empty()) {
    serve.model = *model;
    if (Status status = serve.FindModel(posix.env().fs); !status.ok()) {
      return FailUsage(kCommand, status);
    }
  }
  if (Status status = serve.CheckAnswers(); !status.ok()) return FailUsage(kCommand, status);
  if (Status status = serve.Check(); !status.ok()) return FailUsage(kCommand, status);
  if (Status status = InitLog(serve.log); !status.ok()) return Fail(kCommand, status);
  const Status status = Chat(posix.env(), options, serve);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
