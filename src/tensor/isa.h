// Instruction sets that kernels are written for, and which of them may be used.
//
// Values; any thread.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice {

// Ascending: one that stands further down is preferred where it exists.
enum class Isa : uint8_t {
  kRef,         // what every x86-64 has
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // and VBMI, BF16
};
inline constexpr Isa kIsas[] = {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

// "ref", "avx2", "avx512", "avx512bf16": names of the kernels' files.
std::string_view NameOf(Isa isa);

class IsaSet {
 public:
  constexpr IsaSet(std::initializer_list<Isa> isas) {
    for (const Isa isa : isas) bits_ |= BitOf(isa);
  }
  constexpr bool Has(Isa isa) const { return (bits_ & BitOf(isa)) != 0; }
  // Those up to `isa`.
  constexpr IsaSet UpTo(Isa isa) const {
    IsaSet set{};
    set.bits_ = bits_ & (2 * BitOf(isa) - 1);
    return set;
  }

 private:
  static constexpr uint32_t BitOf(Isa isa) { return uint32_t{1} << static_cast<uint32_t>(isa); }
  uint32_t bits_ = 0;
};

// What this processor has and the system saves at a switch of threads; kRef always.
IsaSet IsasOfMachine();

// What operators may use: the machine's, lowered by the operator of the service.
struct IsaChoice {
  IsaSet all = IsasOfMachine();
  std::vector<std::pair<std::string, Isa>> of_op;  // op -> the highest for it

  IsaSet Of(std::string_view op) const;
};

// text: "avx2" for all operators, "linear:ref" for one, or several of these with commas; the last
// one counts. kInvalidArgument: an instruction set that is unknown or that this machine lacks.
// Names of operators are the caller's to check.
Result<IsaChoice> ParseIsaChoice(std::string_view text);

}  // namespace sluice
