// `sluice render`: the prompt that a request becomes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/codec_tool.h"
#include "app/command.h"
#include "codec/inquiry.h"
#include "env/posix/posix_env.h"
#include "token/vocabulary.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "render";

constexpr std::string_view kHelp =
    "Shows the prompt that a request becomes, as the server makes it.\n"
    "\n"
    "usage: sluice render REQUEST.json --api chat|messages|responses|completions\n"
    "                     [--json | --text] [--tokenizer PATH]\n"
    "\n"
    "REQUEST.json is a request body, - is stdin. In the prompt │ stands between two tokens, a\n"
    "control token stands in ⟦ ⟧, and lines end where the prompt's do; text that has these marks\n"
    "itself has them as \\u2502, \\u27e6 and \\u27e7. A request that is refused gets the words of\n"
    "its API and exit code 1.\n"
    "\n";

struct Options {
  std::string api;
  bool json = false;
  bool text = false;

  void Declare(OptionSet& set) {
    set.Add("api", &api,
            {.help = "Whose request it is: chat, messages, responses or completions.",
             .value = "API",
             .reach = OptionReach::kFlagOnly});
    set.Add("json", &json,
            {.help = "Print one JSON object: text, tokens, sampling values, constraint, ignored "
                     "fields.",
             .reach = OptionReach::kFlagOnly});
    set.Add("text", &text,
            {.help = "Print the prompt's text and nothing else.", .reach = OptionReach::kFlagOnly});
  }
};

std::string MarkedPrompt(std::span<const TokenId> ids, codec::Format format) {
  std::string out;
  bool follows_text = false;
  for (const TokenId id : ids) {
    const std::string_view text = format.text(id);
    const bool is_control = format.vocabulary().is_added(id);
    if (is_control) {
      out += fmt::format("⟦{}⟧", text);
    } else {
      if (follows_text) out += "│";
      AppendVisible(text, "│⟦⟧", out);
      if (text.ends_with('\n')) out += '\n';
    }
    follows_text = !is_control;
  }
  return out;
}

// What else a request asks for.
std::string Summary(const codec::Prepared& prepared) {
  const wire::SamplingParams& sampling = prepared.generate.sampling;
  std::string out = fmt::format(
      "{} tokens, at most {} of the answer\n"
      "temperature {}, top_p {}, top_k {}, min_p {}, presence_penalty {}, frequency_penalty {}, "
      "repetition_penalty {}, {}\n",
      prepared.answer.n_prompt, prepared.generate.n_max, sampling.temperature, sampling.top_p,
      sampling.top_k, sampling.min_p, sampling.presence_penalty, sampling.frequency_penalty,
      sampling.repetition_penalty,
      sampling.seed ? fmt::format("seed {}", *sampling.seed) : "no seed");
  if (prepared.constraint.kind != codec::Constraint::Kind::kNone) {
    out += fmt::format("constraint: {}\n", codec::NameOf(prepared.constraint.kind));
  }
  if (!prepared.ignored_fields.empty()) {
    out += fmt::format("ignored or not enforced: {}\n", fmt::join(prepared.ignored_fields, ", "));
  }
  return out;
}

int Render(FileSystem& files,
           const Options& options,
           const AppOptions& serve,
           const codec::Dialect& dialect,
           const std::string& path) {
  Result<std::string> body = ReadInput(files, path);
  if (!body) return Fail(kCommand, body.error());
  const Result<std::unique_ptr<CodecTool>> tool = CodecTool::Open(files, kCommand, serve);
  if (!tool) return Fail(kCommand, tool.error());
  const codec::PrepareContext context = (*tool)->context();
  const Result<codec::Prepared> prepared = codec::Prepare(dialect, *body, context);
  if (!prepared) return FailRequest(kCommand, dialect, prepared.error(), options.json);
  const std::vector<TokenId>& ids = *prepared->generate.prompt;
  if (options.json) {
    Print(codec::RenderJson(*prepared, context) + "\n");
  } else if (options.text) {
    Print(codec::TextOf(ids, context.format));
  } else {
    Print(MarkedPrompt(ids, context.format) + "\n\n" + Summary(*prepared));
  }
  return kDone;
}

}  // namespace

int RenderMain(const CommandLine& line) {
  const PosixEnv posix;
  Options options;
  AppOptions serve;
  OptionSet set;
  options.Declare(set);
  std::optional<std::string> path;
  const ToolUsage usage{.command = kCommand, .help = kHelp, .line = line, .files = posix.env().fs};
  if (const auto code = ReadToolUsage(usage, set, serve, path)) return *code;
  if (!path) return FailUsage(kCommand, Status::Invalid("name REQUEST.json first, or -"));
  const Result<const codec::Dialect*> dialect = FindDialect(options.api);
  if (!dialect) return FailUsage(kCommand, dialect.error());
  if (options.json && options.text) {
    return FailUsage(kCommand, Status::Invalid("only one of --json and --text may be given"));
  }
  return Render(posix.env().fs, options, serve, **dialect, *path);
}

}  // namespace sluice::app
