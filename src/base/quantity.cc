#include "base/quantity.h"

#include <charconv>
#include <span>
#include <system_error>

#include "base/bytes.h"
#include "base/check.h"

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  int64_t size;
};

// Both from small to large: the last one that divides a value is the one to print it with.
constexpr Unit kByteUnits[] = {{"B", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}};
constexpr Unit kTimeUnits[] = {
    {"ns", 1},
    {"us", Duration::Micros(1).ns},
    {"ms", Duration::Millis(1).ns},
    {"s", Duration::Seconds(1).ns},
    {"m", Duration::Seconds(60).ns},
    {"h", Duration::Seconds(3600).ns},
};

std::optional<int64_t> Parse(std::string_view text, std::span<const Unit> units) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  const std::string_view name = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : units) {
    int64_t value = 0;
    if (unit.name == name && !__builtin_mul_overflow(count, unit.size, &value)) return value;
  }
  return std::nullopt;
}

std::string Format(int64_t value, std::span<const Unit> units, std::string_view zero) {
  SLUICE_CHECK(value >= 0);
  if (value == 0) return std::string(zero);
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (value % unit.size == 0) best = &unit;
  }
  return std::to_string(value / best->size) + std::string(best->name);
}

}  // namespace

std::optional<int64_t> ParseBytes(std::string_view text) { return Parse(text, kByteUnits); }

std::optional<Duration> ParseDuration(std::string_view text) {
  const std::optional<int64_t> ns = Parse(text, kTimeUnits);
  if (!ns) return std::nullopt;
  return Duration::Nanos(*ns);
}

std::string FormatBytes(int64_t n_bytes) { return Format(n_bytes, kByteUnits, "0B"); }

std::string FormatDuration(Duration duration) { return Format(duration.ns, kTimeUnits, "0s"); }

}  // namespace sluice
