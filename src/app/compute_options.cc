#include "app/compute_options.h"

#include <algorithm>
#include <thread>

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
}

int32_t ComputeOptions::NumThreads() const {
  if (n_threads > 0) return n_threads;
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

}  // namespace sluice::app
