// codec_conformance [--profile reference|default] [--tokenizer FILE] [--api NAME]... FILE.jsonl...:
// holds the codec against golden cases, in both profiles if none is named. A line per failed case,
// a line per file and profile; ends with "N passed, N failed".
//
// --api: only cases of these APIs and of none.

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codec/image_tokens.h"
#include "conformance/codec/cases.h"

namespace sluice::conformance {
namespace {

struct Options {
  std::vector<ProfileName> profiles = {ProfileName::kReference, ProfileName::kDefault};
  std::string tokenizer = SLUICE_TOKENIZER;
  std::set<std::string> apis;  // empty: all
  std::vector<std::string> files;
};

std::optional<Options> OptionsOf(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      options.files.push_back(argument);
      continue;
    }
    if (++i == argc) return std::nullopt;
    const std::string value = argv[i];
    if (argument == "--tokenizer") {
      options.tokenizer = value;
    } else if (argument == "--api") {
      options.apis.insert(value);
    } else if (argument != "--profile") {
      return std::nullopt;
    } else if (value == "reference") {
      options.profiles = {ProfileName::kReference};
    } else if (value == "default") {
      options.profiles = {ProfileName::kDefault};
    } else {
      return std::nullopt;
    }
  }
  if (options.files.empty()) return std::nullopt;
  return options;
}

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Tokens and pictures are the same in both profiles.
bool DependsOnProfile(const Json& c) { return !c.contains("kind") && !c.contains("width"); }

Difference CheckImage(const Json& c) {
  return DifferenceOf("tokens", c["tokens"],
                      codec::CountImageTokens({.width = c["width"], .height = c["height"]}));
}

Difference Check(const Json& c, const Suite& suite) {
  if (c.contains("kind"))
    return c["kind"] == "sweep" ? CheckSweep(c, suite) : CheckTokenizer(c, suite);
  if (c.contains("width")) return CheckImage(c);
  if (DialectOf(c) == nullptr) return fmt::format("{} is not served", c["api"].get<std::string>());
  if (c.contains("error")) return CheckReject(c, suite);
  if (c.contains("prompt_text")) return CheckEncode(c, suite);
  if (c.contains("output_tokens") || c.contains("output_text")) return CheckDecode(c, suite);
  return "is of no kind that is known";
}

struct Count {
  int n_passed = 0;
  int n_failed = 0;
};

void CheckFile(const std::string& path,
               const std::string& text,
               const Suite& suite,
               const Options& options,
               Count& count) {
  Count of_file;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const Json c = Json::parse(text.substr(at, end - at));
    at = end + 1;
    if (!options.apis.empty() && c.contains("api") && !options.apis.contains(c["api"])) continue;
    const Difference difference = Check(c, suite);
    ++(difference.empty() ? of_file.n_passed : of_file.n_failed);
    if (difference.empty()) continue;
    std::puts(fmt::format("FAILED {} {}: {}", NameOf(suite.profile), c["name"].get<std::string>(),
                          difference)
                  .c_str());
  }
  std::puts(fmt::format("{} {}: {} passed, {} failed", NameOf(suite.profile), path,
                        of_file.n_passed, of_file.n_failed)
                .c_str());
  count.n_passed += of_file.n_passed;
  count.n_failed += of_file.n_failed;
}

int Main(int argc, char** argv) {
  const std::optional<Options> options = OptionsOf(argc, argv);
  if (!options) {
    std::fputs(
        "usage: codec_conformance [--profile reference|default] [--tokenizer FILE] [--api NAME]... "
        "FILE.jsonl...\n",
        stderr);
    return 2;
  }
  const std::optional<std::string> tokenizer = ReadFile(options->tokenizer);
  if (!tokenizer) {
    std::fputs(
        fmt::format("no tokenizer at {}; tools/make_tokenizer.py makes it\n", options->tokenizer)
            .c_str(),
        stderr);
    return 2;
  }
  Result<token::Vocabulary> vocabulary = token::Vocabulary::Parse(*tokenizer);
  if (!vocabulary) return std::puts(std::string(vocabulary.error().message()).c_str()), 2;
  const auto format = codec::deepseek_v41::Format::Make(std::move(*vocabulary));
  if (!format) return std::puts(std::string(format.error().message()).c_str()), 2;

  Count count;
  for (const std::string& path : options->files) {
    const std::optional<std::string> text = ReadFile(path);
    if (!text) {
      std::puts(fmt::format("FAILED {}: cannot be read", path).c_str());
      ++count.n_failed;
      continue;
    }
    for (ProfileName profile : options->profiles) {
      const bool is_first = profile == options->profiles.front();
      const Json first = Json::parse(text->substr(0, text->find('\n')));
      if (!is_first && !DependsOnProfile(first)) continue;
      CheckFile(path, *text, {.format = **format, .profile = profile}, *options, count);
    }
  }
  std::puts(fmt::format("{} passed, {} failed", count.n_passed, count.n_failed).c_str());
  return count.n_failed == 0 && count.n_passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice::conformance

int main(int argc, char** argv) { return sluice::conformance::Main(argc, argv); }
