// `sluice decode`: what a client gets when the model writes this.

#include <fmt/format.h>

#include <algorithm>

#include "app/codec_tool.h"
#include "app/command.h"
#include "app/local_model.h"
#include "base/json_writer.h"
#include "codec/answer.h"
#include "codec/inquiry.h"
#include "env/posix/posix_env.h"
#include "token/bpe.h"

namespace sluice::app {
namespace {

using codec::Format;

constexpr std::string_view kCommand = "decode";

constexpr std::string_view kHelp =
    "Shows what a client gets when the model writes this, as the server makes it.\n"
    "\n"
    "usage: sluice decode OUTPUT --api chat|messages|responses|completions\n"
    "                     [--request REQUEST.json] [--stream] [--chunk N] [--cut]\n"
    "       sluice decode --tokens FILE --api ...   the output as a JSON list of ids\n"
    "       sluice decode --tokens FILE             the text of these ids and nothing else\n"
    "\n"
    "OUTPUT is a file with the model's text, - is stdin; control tokens are spelled in it, such\n"
    "as </think>, and a line end at its end counts. It begins where a prompt of that request\n"
    "ends: with thinking, inside the reasoning. Tool calls are read only if the request has\n"
    "tools. Ids and times are made up: the same output is always the same answer.\n"
    "\n";

struct Options {
  std::string api;
  std::string tokens;
  std::string request;
  bool stream = false;
  bool cut = false;
  int32_t n_per_event = 1;

  void Declare(OptionSet& set) {
    set.Add("api", &api,
            {.help = "Whose answer it becomes: chat, messages, responses or completions.",
             .value = "API",
             .reach = OptionReach::kFlagOnly});
    set.Add("tokens", &tokens,
            {.help = "File with a JSON list of token ids; - is stdin.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add("request", &request,
            {.help = "The request that is answered: its tools, thinking, stop strings, limits. "
                     "Without it one that says a word.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add("stream", &stream,
            {.help = "Print the events of a stream instead of one JSON body.",
             .reach = OptionReach::kFlagOnly});
    set.Add("cut", &cut,
            {.help = "The output was cut at a limit instead of ended by the model.",
             .reach = OptionReach::kFlagOnly});
    set.Add("chunk", &n_per_event, {.min = 1, .max = 1'000'000},
            {.help = "Tokens that arrive at once.", .reach = OptionReach::kFlagOnly});
  }
};

std::string SmallRequest(codec::Api api, const codec::ModelCard& model) {
  std::string body;
  JsonWriter w(body);
  w.Object().Key("model").String(model.name);
  if (api == codec::Api::kMessages) w.Key("max_tokens").Int(model.n_output_max);
  if (api == codec::Api::kResponses) {
    w.Key("input").String("hi");
  } else if (api == codec::Api::kCompletions) {
    w.Key("prompt").String("hi");
  } else {
    w.Key("messages").Array().Object().Key("role").String("user");
    w.Key("content").String("hi").EndObject().EndArray();
  }
  w.EndObject();
  return body;
}

// The model's output as a service would have sent it: up to its end token, or to the limit.
struct Output {
  std::vector<TokenId> ids;
  wire::FinishReason finish = wire::FinishReason::kEnd;
};

Output OutputOf(std::vector<TokenId> ids, bool cut, int32_t n_max, Format format) {
  const auto end = std::ranges::find_if(ids, [&](TokenId id) { return format.is_end(id); });
  const bool has_end = end != ids.end();
  ids.erase(end, ids.end());
  const bool at_limit = std::ssize(ids) >= n_max || (cut && !has_end);
  if (std::ssize(ids) > n_max) ids.resize(static_cast<size_t>(n_max));
  return {.ids = std::move(ids),
          .finish = at_limit ? wire::FinishReason::kLength : wire::FinishReason::kEnd};
}

// Every choice gets the same output.
std::string Answer(const codec::Dialect& dialect,
                   codec::Prepared prepared,
                   const Output& output,
                   size_t n_per_event,
                   Format format) {
  const int32_t n_choices = prepared.answer.n_choices;
  const bool has_logprobs = prepared.generate.sampling.logprobs;
  const wire::Usage usage{.n_prompt = prepared.answer.n_prompt,
                          .n_completion = static_cast<int32_t>(output.ids.size())};
  const codec::AnswerIdentity identity{
      .id = "decode", .created = {}, .fingerprint = fmt::format("sluice-{}", kVersion)};
  codec::Answer answer(dialect, format, std::move(prepared.answer), identity);
  std::string out;
  for (int32_t choice = 0; choice < n_choices; ++choice) {
    codec::Answer::Next next = codec::Answer::Next::kMore;
    for (size_t at = 0; next == codec::Answer::Next::kMore; at += n_per_event) {
      const size_t n = std::min(n_per_event, output.ids.size() - std::min(at, output.ids.size()));
      wire::TokenEvent event;
      event.first_index = static_cast<int32_t>(at);
      if (n > 0) event.tokens.assign(&output.ids[at], &output.ids[at] + n);
      if (has_logprobs) event.logprobs.resize(n);
      if (n < n_per_event) {
        event.end = std::make_unique<wire::EventEnd>();
        event.end->finish = output.finish;
        event.end->usage = usage;
      }
      next = answer.OnEvent(choice, event, out);
    }
  }
  answer.Finish(out);
  return out;
}

Result<std::vector<TokenId>> ReadIds(FileSystem& files,
                                     const Options& options,
                                     const std::optional<std::string>& path,
                                     Format format) {
  if (!path) return ReadTokenFile(files, InputPath(options.tokens), format.n_tokens());
  SLUICE_TRY(const std::string text, ReadTextInput(files, *path));
  std::vector<TokenId> ids;
  format.bpe().EncodeWithAdded(text, ids);
  return ids;
}

int Decode(FileSystem& files,
           const Options& options,
           const AppOptions& serve,
           const codec::Dialect* dialect,
           const std::optional<std::string>& path) {
  const Result<std::unique_ptr<CodecTool>> tool = CodecTool::Open(files, kCommand, serve);
  if (!tool) return Fail(kCommand, tool.error());
  const codec::PrepareContext context = (*tool)->context();
  Result<std::vector<TokenId>> ids = ReadIds(files, options, path, context.format);
  if (!ids) return Fail(kCommand, ids.error());
  if (dialect == nullptr) {
    Print(codec::TextOf(*ids, context.format));
    return kDone;
  }
  Result<std::string> body = options.request.empty() ? SmallRequest(dialect->api, context.model)
                                                     : ReadInput(files, options.request);
  if (!body) return Fail(kCommand, body.error());
  Result<codec::Prepared> prepared = codec::Prepare(*dialect, *body, context);
  if (!prepared) return FailRequest(kCommand, *dialect, prepared.error(), !options.stream);
  prepared->answer.stream = options.stream;
  const Output output =
      OutputOf(std::move(*ids), options.cut, prepared->generate.n_max, context.format);
  const std::string out = Answer(*dialect, std::move(*prepared), output,
                                 static_cast<size_t>(options.n_per_event), context.format);
  Print(options.stream ? out : out + "\n");
  return kDone;
}

}  // namespace

int DecodeMain(const CommandLine& line) {
  const PosixEnv posix;
  Options options;
  AppOptions serve;
  OptionSet set;
  options.Declare(set);
  std::optional<std::string> path;
  const ToolUsage usage{.command = kCommand, .help = kHelp, .line = line, .files = posix.env().fs};
  if (const auto code = ReadToolUsage(usage, set, serve, path)) return *code;
  if (path.has_value() == !options.tokens.empty()) {
    return FailUsage(kCommand, Status::Invalid("one of OUTPUT, - and --tokens FILE is wanted"));
  }
  const bool is_plain = options.api.empty() && !path;
  if (is_plain && (options.stream || options.cut || !options.request.empty())) {
    return FailUsage(kCommand, Status::Invalid("--stream, --cut and --request go with --api"));
  }
  const codec::Dialect* dialect = nullptr;
  if (!is_plain) {
    const Result<const codec::Dialect*> found = FindDialect(options.api);
    if (!found) return FailUsage(kCommand, found.error());
    dialect = *found;
  }
  return Decode(posix.env().fs, options, serve, dialect, path);
}

}  // namespace sluice::app
