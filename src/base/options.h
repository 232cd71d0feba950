// OptionSet: the options of a command, each declared once.
//
//   name = flag = TOML key = environment variable = line of --print-config = row of the
//   documentation max-body: --max-body 48MiB, max-body = "48MiB", SLUICE_MAX_BODY=48MiB
//
// 1. A flag goes before the environment, that before the file, that before the default, in whatever
// order they are read.
// 2. A value is checked wherever it comes from, also when a stronger source overrides it.
// 3. What nobody declared is refused, and the error names the nearest declared name.
// 4. The value of a secret is never printed.
//
// Thread-compatible; the targets must outlive the set. Help texts are literals: only their address
// is kept.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace sluice {

using Environment = std::map<std::string, std::string, std::less<>>;

enum class OptionOrigin : uint8_t { kDefault, kFile, kEnvironment, kFlag };  // from weak to strong

enum class OptionReach : uint8_t {
  kAnywhere,
  kFlagOrEnvironment,  // decides which file is read
  kFlagOnly,           // asks for an action, once
};

struct OptionText {
  std::string_view help;        // a sentence; default and range are added to it
  std::string_view value = {};  // placeholder in help: "FILE"; a default one for each kind
  std::string_view unit = {};   // of an integer: "tokens"
  bool is_limit = false;        // listed by `sluice doctor limits`
  bool has_lines = false;       // a text for a reader: tabs and line ends are allowed
  OptionReach reach = OptionReach::kAnywhere;
};

// Both ends are allowed values; bytes and nanoseconds for sizes and durations.
struct OptionRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;
};

struct NumberRange {
  double min = 0;
  double max = 0;
};

// One option as it stands, for those that list them.
struct OptionLine {
  std::string_view group;
  std::string_view name;
  std::string value;         // as --print-config writes it; `***` for a secret that is set
  std::string default_text;  // as a flag has it
  std::string allowed;       // "0 to 65535", "text, json"
  std::string_view help;
  std::string origin;     // "default", "flag --port", "sluice.toml:3"
  int64_t number = 0;     // integers, sizes (bytes) and durations (ns); else 0
  std::string_view unit;  // of number
  bool is_limit = false;
  bool is_secret = false;
  OptionReach reach = OptionReach::kAnywhere;
};

struct DeclaredOption;

class OptionSet {
 public:
  OptionSet();
  OptionSet(const OptionSet&) = delete;
  ~OptionSet();

  // Heading for the options that follow.
  void Group(std::string_view title) { group_ = title; }

  // The target holds the default, which must be allowed.
  void Add(std::string_view name, std::string* target, const OptionText& text);
  void Add(std::string_view name, bool* target, const OptionText& text);
  void Add(std::string_view name, std::vector<std::string>* target, const OptionText& text);
  void Add(std::string_view name, int32_t* target, OptionRange range, const OptionText& text);
  void Add(std::string_view name, int64_t* target, OptionRange range, const OptionText& text);
  void Add(std::string_view name, double* target, NumberRange range, const OptionText& text);
  void Add(std::string_view name, Duration* target, OptionRange range, const OptionText& text);
  void AddBytes(std::string_view name, int64_t* target, OptionRange range, const OptionText& text);
  void AddSecret(std::string_view name, std::string* target, const OptionText& text);

  // `names[i]` is the value E(i).
  template <typename E>
  void AddChoice(std::string_view name,
                 E* target,
                 std::span<const std::string_view> names,
                 const OptionText& text) {
    static_assert(std::is_enum_v<E> && sizeof(E) == 1);
    AddChoiceIndex(name, reinterpret_cast<uint8_t*>(target), names, text);
  }

  // Arguments after the subcommand. A list is a flag given several times; a bool is --name or
  // --no-name. What is no flag goes to `others`, wherever it stands; without it is refused.
  Status ReadFlags(std::span<const std::string> args, std::vector<std::string>* others = nullptr);
  // Looks at SLUICE_* only. Elements of a list are separated by commas.
  Status ReadEnvironment(const Environment& environment);
  // TOML without tables; `file_name` is how messages call it.
  Status ReadFile(std::string_view text, std::string_view file_name);

  // Gives an option that no source has set another default; `where` says whose it is. The value, as
  // a flag has it, must be allowed.
  void SetDefault(std::string_view name, std::string_view value, std::string_view where);

  // In the order of declaration.
  std::vector<OptionLine> Lines() const;
  // Grouped, wrapped at 100 columns.
  std::string Help() const;
  // A config file that says what is set now and where each value comes from.
  std::string PrintConfig() const;
  // One table per group.
  std::string MarkdownTables() const;

 private:
  void AddChoiceIndex(std::string_view name,
                      uint8_t* target,
                      std::span<const std::string_view> names,
                      const OptionText& text);
  void Declare(DeclaredOption option);
  DeclaredOption* Find(std::string_view name, OptionReach reach);
  std::string_view Nearest(std::string_view name, OptionReach reach) const;

  std::vector<DeclaredOption> options_;
  std::string_view group_;
};

// The known name with the smallest edit distance, first of equals; empty if nothing is known.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> known);

}  // namespace sluice
