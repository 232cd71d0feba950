#include "codec/dialect/effort.h"

#include <algorithm>
#include <iterator>

#include "codec/dialect/field.h"

namespace sluice::codec {
namespace {

struct EffortName {
  std::string_view name;
  int32_t effort;
};
constexpr EffortName kEfforts[] = {{"none", kEffortOff}, {"minimal", 50}, {"low", 50},
                                   {"medium", 75},       {"high", 75},    {"xhigh", 75},
                                   {"ultra", 100},       {"max", 100}};

}  // namespace

Status ReadEffort(std::string_view path,
                  const JsonValue& value,
                  bool numbers,
                  std::optional<int32_t>& effort) {
  if (value.is_string()) {
    const EffortName* found = std::ranges::find(kEfforts, value.AsString(), &EffortName::name);
    if (found != std::end(kEfforts)) {
      effort = found->effort;
      return Status::Ok();
    }
  }
  if (numbers && value.is(JsonKind::kInt) && value.AsInt64() >= 1 && value.AsInt64() <= 100) {
    effort = static_cast<int32_t>(value.AsInt64());
    return Status::Ok();
  }
  return WrongValue(
      path,
      numbers
          ? "one of none, minimal, low, medium, high, xhigh, ultra, max, or an integer from 1 to "
            "100"
          : "one of none, minimal, low, medium, high, xhigh, ultra, max",
      value);
}

}  // namespace sluice::codec
