#include "env/proc_text.h"

#include <charconv>
#include <limits>

namespace sluice {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// What stands in front of `mark`, or everything; `text` keeps what is behind it.
std::string_view TakeUntil(std::string_view& text, std::string_view marks) {
  const size_t end = text.find_first_of(marks);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return taken;
}

// The whole of `text` as a number that is not negative.
std::optional<int64_t> Number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string_view FieldOf(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = TakeUntil(text, "\n");
    if (!line.starts_with(name)) continue;
    line = Trimmed(line.substr(name.size()));
    if (line.starts_with(':')) return Trimmed(line.substr(1));
  }
  return {};
}

std::optional<int64_t> KilobyteField(std::string_view text, std::string_view name) {
  std::string_view value = FieldOf(text, name);
  const std::optional<int64_t> n_kilobytes = Number(TakeUntil(value, " "));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1024;
  if (!n_kilobytes || *n_kilobytes > kMost || Trimmed(value) != "kB") return std::nullopt;
  return *n_kilobytes * 1024;
}

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    if (TakeUntil(words, kBlanks) == word) return true;
  }
  return false;
}

std::optional<int64_t> CountOfRanges(std::string_view list) {
  constexpr int64_t kMost = 1 << 20;  // beyond any machine
  list = Trimmed(list);
  int64_t n = 0;
  if (list.empty()) return std::nullopt;
  while (!list.empty()) {
    std::string_view range = TakeUntil(list, ",");
    const bool is_one = range.find('-') == range.npos;
    const std::optional<int64_t> first = Number(TakeUntil(range, "-"));
    const std::optional<int64_t> last = is_one ? first : Number(range);
    if (!first || !last || *last < *first || *last >= kMost) return std::nullopt;
    n += *last - *first + 1;
    if (n > kMost) return std::nullopt;
  }
  return n;
}

std::optional<double> CoresOfQuota(std::string_view cpu_max) {
  cpu_max = Trimmed(cpu_max);
  const std::optional<int64_t> quota = Number(TakeUntil(cpu_max, " "));
  const std::optional<int64_t> period = Number(cpu_max);
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<int64_t> CgroupBytes(std::string_view text) {
  // Version 1 writes the largest multiple of a page where there is no limit.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  const std::optional<int64_t> n_bytes = Number(Trimmed(text));
  return n_bytes && *n_bytes < kNoLimit ? n_bytes : std::nullopt;
}

std::optional<int64_t> StatBytes(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = TakeUntil(text, "\n");
    if (TakeUntil(line, " ") == name) return Number(line);
  }
  return std::nullopt;
}

std::string_view CgroupPath(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = TakeUntil(text, "\n");
    if (!line.starts_with("0::/")) continue;
    const std::string_view path = line.substr(3);
    return path.find("..") == path.npos ? path : std::string_view();
  }
  return {};
}

std::optional<int64_t> OpenFilesLimit(std::string_view text) {
  constexpr std::string_view kName = "Max open files";
  while (!text.empty()) {
    const std::string_view line = TakeUntil(text, "\n");
    if (!line.starts_with(kName)) continue;
    std::string_view limits = Trimmed(line.substr(kName.size()));
    return Number(TakeUntil(limits, kBlanks));
  }
  return std::nullopt;
}

std::string_view ChosenWord(std::string_view text) {
  const size_t begin = text.find('[');
  const size_t end = text.find(']', begin == text.npos ? 0 : begin);
  if (begin == text.npos || end == text.npos) return {};
  return text.substr(begin + 1, end - begin - 1);
}

}  // namespace sluice
