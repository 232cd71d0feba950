// model_conformance DIR...: holds the model against golden folders, in exact arithmetic and in
// float32, and every instruction set of this machine against `ref`. One line per tensor and
// arithmetic; ends with "N passed, N failed".

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "conformance/compare.h"
#include "conformance/golden.h"
#include "conformance/runs.h"
#include "env/posix/posix_env.h"
#include "tensor/thread_team.h"

namespace sluice::conformance {
namespace {

struct Count {
  int64_t n_passed = 0;
  int64_t n_failed = 0;
};

bool EndsWith(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// The table of the golden folders' README.
Tolerance ToleranceOf(std::string_view name) {
  const bool is_layer = name.find(".layer.") != std::string_view::npos;
  if (!is_layer) {
    if (name.ends_with(".positions")) return Tolerance::kBytes;
    if (name.starts_with("dspark.") && name.find(".state_") != std::string_view::npos)
      return Tolerance::kDraftBytes;
    if (name.ends_with("_codes") || name.ends_with("_scales")) return Tolerance::kFreeBytes;
    if (name.ends_with("tokens")) return Tolerance::kFreeTokens;
    if (EndsWith(name, {".taps", ".hidden", ".confidence", ".final_hidden"}))
      return Tolerance::kFreeValues;
    return Tolerance::kLogits;
  }
  if (EndsWith(name, {"_codes", "_scales", ".selected", ".candidates", ".experts", ".engram_rows"}))
    return Tolerance::kBytes;
  if (EndsWith(name, {".attn_pre", ".attn_post", ".attn_comb", ".mix_in"})) return Tolerance::kSite;
  if (EndsWith(name, {".ffn_post", ".ffn_comb", ".mix_out", ".router_logits", ".expert_weights",
                      ".engram_gate"}))
    return Tolerance::kBehindSite;
  if (EndsWith(name, {".expert_out", ".shared_out", ".ffn_out", ".streams_out"}))
    return Tolerance::kCoarse;
  return Tolerance::kBf16;
}

// Handed to the model, not computed by it.
bool IsInput(std::string_view name) { return name.starts_with("image") && name.ends_with(".rows"); }

using Tensors = std::map<std::string, Tensor>;

Tensors Compute(const Golden& golden, Arithmetic arithmetic, Isa isa) {
  ThreadTeam team(1);  // threads change no bit, and cost time on a busy machine
  Stream stream{.team = team,
                .arithmetic = arithmetic,
                .isas = {.all = IsasOfMachine().UpTo(isa), .of_op = {}}};
  Runs runs(golden, stream);
  return runs.All();
}

void Tell(const Verdict& verdict, std::string_view how, std::string_view name, Count& count) {
  ++(verdict.passed ? count.n_passed : count.n_failed);
  std::puts(
      fmt::format("{} {:<10} {}: {}", verdict.passed ? "ok    " : "FAILED", how, name, verdict.text)
          .c_str());
}

Tensors CompareWithGolden(const Golden& golden, Arithmetic arithmetic, Count& count) {
  const bool is_exact = arithmetic == Arithmetic::kExact;
  Tensors computed = Compute(golden, arithmetic, Isa::kRef);
  for (const auto& [name, tensor] : golden.tensors) {
    if (IsInput(name)) continue;
    const auto actual = computed.find(name);
    Verdict verdict{.text = "nothing computes this tensor"};
    if (actual != computed.end()) {
      verdict = is_exact ? CompareExact(tensor, actual->second)
                         : CompareFloat32(tensor, actual->second, ToleranceOf(name));
    }
    Tell(verdict, is_exact ? "exact" : "float32", name, count);
  }
  return computed;
}

// What every instruction set computes are the bits of `ref`.
void CompareWithRef(const Golden& golden, const Tensors& of_ref, Isa isa, Count& count) {
  const Tensors computed = Compute(golden, Arithmetic::kFloat32, isa);
  for (const auto& [name, tensor] : of_ref) {
    const Verdict verdict{.passed = computed.at(name).bytes == tensor.bytes,
                          .text = "the bits of ref"};
    Tell(verdict, NameOf(isa), name, count);
  }
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: model_conformance DIR...\n", stderr);
    return 2;
  }
  PosixEnv env;
  Count count;
  for (int i = 1; i < argc; ++i) {
    Result<std::unique_ptr<Golden>> golden = Golden::Open(env.env().fs, argv[i]);
    if (!golden) {
      std::puts(fmt::format("FAILED {}: {}", argv[i], golden.error().message()).c_str());
      ++count.n_failed;
      continue;
    }
    CompareWithGolden(**golden, Arithmetic::kExact, count);
    const Tensors of_ref = CompareWithGolden(**golden, Arithmetic::kFloat32, count);
    for (const Isa isa : kIsas) {
      if (isa != Isa::kRef && IsasOfMachine().Has(isa)) CompareWithRef(**golden, of_ref, isa, count);
    }
  }
  std::puts(fmt::format("{} passed, {} failed", count.n_passed, count.n_failed).c_str());
  return count.n_failed == 0 && count.n_passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice::conformance

int main(int argc, char** argv) { return sluice::conformance::Main(argc, argv); }
