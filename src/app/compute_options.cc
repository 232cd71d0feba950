#include "app/compute_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/variants.h"

namespace sluice::app {
namespace {

constexpr std::string_view kArithmetics[] = {"float32", "exact"};

}  // namespace

void ComputeOptions::Declare(OptionSet& set, OptionReach reach) {
  set.Add(
      "threads", &n_threads, {.min = 0, .max = 1024},
      {.help = "Threads that compute; 0: one per core. They change no result.", .reach = reach});
  set.AddChoice("arithmetic", &arithmetic, kArithmetics,
                {.help = "exact: sums in double precision, as the golden values were made; slow.",
                 .reach = reach});
  set.Add("variant", &variant,
          {.help = "Highest instruction set of kernels (ref, avx2, avx512, avx512bf16), or of one "
                   "operator (linear:avx2); empty: the best here. It changes no result.",
           .reach = reach});
}

int32_t ComputeOptions::NumThreads() const {
  if (n_threads > 0) return n_threads;
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

void ComputeOptions::ReadVariant(const Environment& environment) {
  const auto found = environment.find("SLUICE_VARIANT");
  if (variant.empty() && found != environment.end()) variant = found->second;
}

Result<IsaChoice> ComputeOptions::Isas() const {
  if (variant.empty()) return IsaChoice{};
  Result<IsaChoice> parsed = ParseIsaChoice(variant);
  if (!parsed) return Status::Invalid(fmt::format("variant: {}", parsed.error().message()));
  IsaChoice choice = std::move(*parsed);
  const std::vector<ops::OpIsas> known = ops::OpsWithVariants();
  for (const auto& [op, isa] : choice.of_op) {
    if (std::ranges::find(known, op, &ops::OpIsas::op) == known.end()) {
      return Status::Invalid(fmt::format("variant: no operator '{}' has variants", op));
    }
  }
  return choice;
}

}  // namespace sluice::app
