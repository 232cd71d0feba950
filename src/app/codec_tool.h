// What `sluice tokenize`, `render` and `decode` share: the codec with the settings of a server, its
// tokenizer, and tokens as people read them. Owned by the command's thread.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/app_options.h"
#include "app/command.h"
#include "app/model_format.h"
#include "base/options.h"
#include "codec/dialect.h"
#include "codec/format.h"

namespace sluice::app {

// The codec as `sluice serve` with the same flags, environment and config file has it.
class CodecTool {
 public:
  // Says on stderr which tokenizer it is. `command`: "render".
  static Result<std::unique_ptr<CodecTool>> Open(FileSystem& files,
                                                 std::string_view command,
                                                 const AppOptions& options);

  codec::Format format() const { return format_.format.get(); }
  const codec::ModelCard& model() const { return model_; }
  codec::PrepareContext context() const;

 private:
  CodecTool(const AppOptions& options, ModelFormat format);

  codec::ModelCard model_;
  const ModelFormat format_;
  const bool strict_;
  const bool default_thinking_;
  const codec::Profile profile_;
};

// Reads `sluice COMMAND [FIRST] --flag ...`, where flags are those of `own` and those of `sluice
// serve`, which also come from the environment and the config file. `first` becomes FIRST, if it is
// there. An exit code ends the command: help was printed, or the usage was wrong.
struct ToolUsage {
  std::string_view command;
  std::string_view help;
  const CommandLine& line;
  FileSystem& files;
};
std::optional<int> ReadToolUsage(const ToolUsage& usage,
                                 OptionSet& own,
                                 AppOptions& serve,
                                 std::optional<std::string>& first);
// The same of `sluice COMMAND`, whose arguments besides flags may stand anywhere.
std::optional<int> ReadToolUsage(const ToolUsage& usage,
                                 OptionSet& own,
                                 AppOptions& serve,
                                 std::vector<std::string>& others);

// The dialect of this name; kInvalidArgument names the known ones.
Result<const codec::Dialect*> FindDialect(std::string_view name);

// A file, or stdin for "-".
Result<std::string> ReadInput(FileSystem& files, std::string_view path);
std::string_view InputPath(std::string_view path);

// As ReadInput, of UTF-8 text; else names the first byte that is none.
Result<std::string> ReadTextInput(FileSystem& files, std::string_view path);
Status CheckUtf8(std::string_view text, std::string_view path);

// A request that was refused, as its API says it: on stderr, and with `as_json` its error body on
// stdout.
int FailRequest(std::string_view command,
                const codec::Dialect& dialect,
                const Status& status,
                bool as_json);

// Appends bytes as a terminal may show them: control characters, characters that are not seen and
// bytes that are no whole character as \n, \xe4, \u200b; a backslash and the characters of `marks`,
// too, so that no text looks like something else.
void AppendVisible(std::string_view bytes, std::string_view marks, std::string& out);

}  // namespace sluice::app
