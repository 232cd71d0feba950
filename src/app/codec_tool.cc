#include "app/codec_tool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/limits.h"
#include "base/utf8.h"

namespace sluice::app {
namespace {

// Control characters, and those that have no width or turn the direction of text.
bool IsUnseen(uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point <= 0xA0) || point == 0xAD ||
         (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x206F) || point == 0x061C || point == 0x180E ||
         point == 0xFEFF || (point >= 0xE0000 && point <= 0xE007F);
}

void AppendEscape(uint32_t point, std::string& out) {
  switch (point) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      if (point >= 0x20 && point < 0x7F) {
        out += '\\';
        out += static_cast<char>(point);
      } else {
        out += point < 0x20 ? fmt::format("\\x{:02x}", point) : fmt::format("\\u{:04x}", point);
      }
  }
}

}  // namespace

CodecTool::CodecTool(const AppOptions& options, ModelFormat format)
    : model_({.n_context = options.n_context, .n_output_max = options.n_output_max}),
      format_(std::move(format)),
      strict_(options.serve.strict),
      default_thinking_(options.default_thinking),
      profile_(options.codec.ToProfile()) {
  NameModel(options, format_, model_);
}

Result<std::unique_ptr<CodecTool>> CodecTool::Open(FileSystem& files,
                                                   std::string_view command,
                                                   const AppOptions& options) {
  SLUICE_TRY(ModelFormat format, ReadFormat(files, options));
  const bool is_built_in = options.tokenizer.empty() && options.model.empty();
  Complain(fmt::format("sluice {}: {} with {} tokens, chat format {}{}\n", command, format.source,
                       format.format.get().n_tokens(), format.format.get().name(),
                       is_built_in ? "; --tokenizer names a model's" : ""));
  return std::unique_ptr<CodecTool>(new CodecTool(options, std::move(format)));
}

codec::PrepareContext CodecTool::context() const {
  return {.model = model_,
          .format = format(),
          .strict = strict_,
          .default_thinking = default_thinking_,
          .profile = profile_};
}

namespace {

void PrintToolHelp(const ToolUsage& usage, const OptionSet& own) {
  Print(usage.help);
  Print(own.Help());
  Print(
      "\nEvery option of `sluice serve` counts here, too, also from the environment and from\n"
      "--config FILE: --tokenizer, --model, --model-name, --context, --default-thinking,\n"
      "--profile and the switches of the codec. `sluice serve --help` has them all.\n");
}

}  // namespace

std::optional<int> ReadToolUsage(const ToolUsage& usage,
                                 OptionSet& own,
                                 AppOptions& serve,
                                 std::vector<std::string>& others) {
  if (AsksForHelp(usage.line)) {
    PrintToolHelp(usage, own);
    return kDone;
  }
  serve.Declare(own);
  const Status read =
      serve.ReadSources(own, usage.line.args, usage.line.environment, usage.files, &others);
  if (!read.ok()) return FailUsage(usage.command, read);
  return std::nullopt;
}

std::optional<int> ReadToolUsage(const ToolUsage& usage,
                                 OptionSet& own,
                                 AppOptions& serve,
                                 std::optional<std::string>& first) {
  if (AsksForHelp(usage.line)) {
    PrintToolHelp(usage, own);
    return kDone;
  }
  std::span<const std::string> flags = usage.line.args;
  if (!flags.empty() && (flags[0] == "-" || !flags[0].starts_with('-'))) {
    first = flags[0];
    flags = flags.subspan(1);
  }
  serve.Declare(own);
  const Status read = serve.ReadSources(own, flags, usage.line.environment, usage.files);
  if (!read.ok()) return FailUsage(usage.command, read);
  return std::nullopt;
}

Result<const codec::Dialect*> FindDialect(std::string_view name) {
  std::vector<std::string_view> known;
  for (const codec::Dialect& dialect : codec::Dialects()) {
    if (name == dialect.name) return &dialect;
    known.push_back(dialect.name);
  }
  return Status::Invalid(
      fmt::format("--api must be one of {}, not \"{}\"", fmt::join(known, ", "), name));
}

std::string_view InputPath(std::string_view path) { return path == "-" ? "/dev/stdin" : path; }

Result<std::string> ReadInput(FileSystem& files, std::string_view path) {
  return files.ReadWhole(InputPath(path), limits::kMaxToolInputBytes);
}

Status CheckUtf8(std::string_view text, std::string_view path) {
  const size_t n_valid = ValidUtf8Prefix(text);
  if (n_valid == text.size()) return Status::Ok();
  return Status::Invalid(fmt::format("{}: not UTF-8 text: byte {} is 0x{:02x}", path, n_valid,
                                     static_cast<unsigned char>(text[n_valid])));
}

Result<std::string> ReadTextInput(FileSystem& files, std::string_view path) {
  SLUICE_TRY(std::string text, ReadInput(files, path));
  SLUICE_TRY(CheckUtf8(text, InputPath(path)));
  return text;
}

int FailRequest(std::string_view command,
                const codec::Dialect& dialect,
                const Status& status,
                bool as_json) {
  if (as_json) Print(dialect.error_body(status, "") + "\n");
  const std::string field = status.param().empty() ? "" : fmt::format(", field {}", status.param());
  Complain(fmt::format("sluice {}: {} (HTTP {}{})\n", command, status.message(),
                       codec::HttpStatusOf(dialect, status.code()), field));
  return kFailed;
}

void AppendVisible(std::string_view bytes, std::string_view marks, std::string& out) {
  while (!bytes.empty()) {
    const auto [point, n] = FirstCharacter(bytes);
    if (n == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
      bytes.remove_prefix(1);
      continue;
    }
    const std::string_view character = bytes.substr(0, n);
    const bool is_mark = point == '\\' || marks.find(character) != std::string_view::npos;
    is_mark || IsUnseen(point) ? AppendEscape(point, out) : void(out += character);
    bytes.remove_prefix(n);
  }
}

}  // namespace sluice::app
