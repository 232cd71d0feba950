// Which rows of a sequence run, and which of them again (ARCHITECTURE.md §11, spec model.md §4.4).
// Pure functions.
//
// The shared rows behind a hit are there, the windows are not: they are rebuilt by running some
// rows before it once more. In a compact prompt the second half of the layers runs for its last
// window only. All of it follows from three numbers, so a cold prompt, a hit, a fork and a sequence
// that comes back after it gave its blocks away are one case.

#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::engine {

// kCompact: the official system's half-price prompts. kFull: every row through every layer.
enum class Prefill : uint8_t { kCompact, kFull };
// kBounded: one window of rows, as the official system does; results may depend on the hit. kExact:
// as many as rebuild the windows bit for bit.
enum class Replay : uint8_t { kBounded, kExact };

inline constexpr std::string_view kPrefillNames[] = {"compact", "full"};
inline constexpr std::string_view kReplayNames[] = {"bounded", "exact"};

struct ReplayRule {
  Prefill prefill = Prefill::kCompact;
  Replay replay = Replay::kBounded;
  int32_t window = 0;    // rows that a row sees in full; 0: a model without, kFull and kExact
  int32_t n_replay = 0;  // rows before a hit
  int32_t n_slack = 0;   // rows that rings hold beyond a window
};

// Rows before this one stop in the middle of the layers. Of the prompt as it was sent, also when
// more tokens are known by now.
int32_t DecoderBegin(const ReplayRule& rule, int32_t n_prompt);

// Whether the windows of a sequence of other_n_prompt tokens of prompt, of which other_n_run had
// run, serve for one of n_prompt that goes on at row `begin`.
bool WindowsServe(const ReplayRule& rule,
                  int32_t n_prompt,
                  int32_t begin,
                  int32_t other_n_prompt,
                  int32_t other_n_run);

// The first row that runs behind a hit of n_hit tokens; 0 without one. Even.
int32_t ReplayBegin(const ReplayRule& rule, int32_t n_prompt, int32_t n_hit);

}  // namespace sluice::engine
