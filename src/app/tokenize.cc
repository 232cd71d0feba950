// `sluice tokenize`: the tokens of a text.

#include <fmt/format.h>

#include "app/codec_tool.h"
#include "app/command.h"
#include "base/bytes.h"
#include "base/json_writer.h"
#include "codec/tokenize.h"
#include "env/posix/posix_env.h"
#include "token/bpe.h"
#include "token/vocabulary.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "tokenize";

constexpr std::string_view kHelp =
    "Shows the tokens of a text.\n"
    "\n"
    "usage: sluice tokenize TEXT [--json | --count] [--control-tokens] [--tokenizer PATH]\n"
    "       sluice tokenize --file FILE ...\n"
    "       sluice tokenize - ...             reads stdin\n"
    "\n"
    "One token a line, its id and its text: a text in quotes, a control token without. Nothing is\n"
    "put before or behind the text; a line end at its end counts. PATH is a tokenizer.json, a\n"
    "folder that has one, or a GGUF file; without it the tokenizer is a small one that is built\n"
    "in.\n"
    "\n";

struct Options {
  std::string file;
  bool json = false;
  bool count = false;
  bool control_tokens = false;

  void Declare(OptionSet& set) {
    set.Add("file", &file,
            {.help = "File with the text; - is stdin.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add("json", &json,
            {.help = "Print one JSON object: count, tokens and their texts.",
             .reach = OptionReach::kFlagOnly});
    set.Add("count", &count,
            {.help = "Print the number of tokens only.", .reach = OptionReach::kFlagOnly});
    set.Add(
        "control-tokens", &control_tokens,
        {.help = "Where the text spells a control token, such as <｜User｜>, it is one. Without "
                 "this it is text, as in every request.",
         .reach = OptionReach::kFlagOnly});
  }
};

// Prints in pieces: a large text has millions of lines.
void PrintLines(const std::vector<TokenId>& ids, codec::Format format) {
  constexpr size_t kPieceBytes = 64 * kKiB;
  std::string out;
  for (const TokenId id : ids) {
    out += fmt::format("{:>7}  ", id.value);
    if (format.vocabulary().is_added(id)) {
      out += format.text(id);
    } else {
      out += '"';
      AppendVisible(format.text(id), "\"", out);
      out += '"';
    }
    out += '\n';
    if (out.size() < kPieceBytes) continue;
    Print(out);
    out.clear();
  }
  Print(out + fmt::format("{} tokens\n", ids.size()));
}

Status Tokenize(FileSystem& files,
                const Options& options,
                const AppOptions& serve,
                const std::optional<std::string>& argument) {
  const bool is_file = !options.file.empty() || *argument == "-";
  std::string text;
  if (is_file) {
    SLUICE_TRY(text, ReadTextInput(files, options.file.empty() ? *argument : options.file));
  } else {
    text = *argument;
    SLUICE_TRY(CheckUtf8(text, "the argument"));
  }
  SLUICE_TRY(const std::unique_ptr<CodecTool> tool, CodecTool::Open(files, kCommand, serve));
  const codec::Format format = tool->format();
  std::vector<TokenId> ids;
  options.control_tokens ? format.bpe().EncodeWithAdded(text, ids) : format.bpe().Encode(text, ids);
  if (options.count) {
    Print(fmt::format("{}\n", ids.size()));
  } else if (options.json) {
    std::string json;
    JsonWriter w(json);
    w.Object().Key("count").Int(std::ssize(ids)).Key("tokens");
    codec::WriteIds(ids, w);
    w.Key("token_strs");
    codec::WriteTokenNames(ids, format, w);
    w.EndObject();
    Print(json + "\n");
  } else {
    PrintLines(ids, format);
  }
  return Status::Ok();
}

}  // namespace

int TokenizeMain(const CommandLine& line) {
  const PosixEnv posix;
  Options options;
  AppOptions serve;
  OptionSet set;
  options.Declare(set);
  std::optional<std::string> text;
  const ToolUsage usage{.command = kCommand, .help = kHelp, .line = line, .files = posix.env().fs};
  if (const auto code = ReadToolUsage(usage, set, serve, text)) return *code;
  if (text.has_value() == !options.file.empty()) {
    return FailUsage(kCommand, Status::Invalid("one of TEXT, - and --file FILE is wanted"));
  }
  if (options.json && options.count) {
    return FailUsage(kCommand, Status::Invalid("only one of --json and --count may be given"));
  }
  const Status status = Tokenize(posix.env().fs, options, serve, text);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
