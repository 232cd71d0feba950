#include "tensor/isa.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

IsaSet Detect() {
  __builtin_cpu_init();
  Isa best = Isa::kRef;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    best = Isa::kAvx2;
    if (HasAvx512()) {
      best = Isa::kAvx512;
      if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16")) {
        best = Isa::kAvx512Bf16;
      }
    }
  }
  return IsaSet{Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}.UpTo(best);
}

std::string NamesOf(IsaSet isas) {
  std::string names;
  for (const Isa isa : kIsas) {
    if (!isas.Has(isa)) continue;
    if (!names.empty()) names += ", ";
    names += NameOf(isa);
  }
  return names;
}

}  // namespace

std::string_view NameOf(Isa isa) {
  constexpr std::string_view kNames[] = {"ref", "avx2", "avx512", "avx512bf16"};
  return kNames[static_cast<size_t>(isa)];
}

IsaSet IsasOfMachine() {
  static const IsaSet isas = Detect();
  return isas;
}

IsaSet IsaChoice::Of(std::string_view op) const {
  for (const auto& [name, isa] : of_op) {
    if (name == op) return IsasOfMachine().UpTo(isa);
  }
  return all;
}

Result<IsaChoice> ParseIsaChoice(std::string_view text) {
  IsaChoice choice;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    more = comma != text.npos;
    if (more) text.remove_prefix(comma + 1);
    const size_t colon = item.find(':');
    const std::string_view name = colon == item.npos ? item : item.substr(colon + 1);
    const auto isa = std::ranges::find(kIsas, name, [](Isa each) { return NameOf(each); });
    if (isa == std::end(kIsas) || !IsasOfMachine().Has(*isa)) {
      return Status::Invalid(
          fmt::format("'{}' is not allowed: this machine has {}", item, NamesOf(IsasOfMachine())));
    }
    if (colon == item.npos) {
      choice.all = IsasOfMachine().UpTo(*isa);
      choice.of_op.clear();
    } else {
      choice.of_op.insert(choice.of_op.begin(), {std::string(item.substr(0, colon)), *isa});
    }
  }
  return choice;
}

}  // namespace sluice
