// How far a batch is, in numbers and in words. Pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace sluice::batch {

// Of one run.
struct Totals {
  int64_t n_done = 0;    // rows with a line
  int64_t n_failed = 0;  // of those: with an error
  int64_t n_prompt = 0;  // tokens of answered rows, as their usage has them
  int64_t n_cached = 0;
  int64_t n_completion = 0;
  int64_t n_generated = 0;  // tokens so far, those of rows that are not done yet included
};

struct Progress {
  int64_t n_rows = 0;    // of the input
  int64_t n_done = 0;    // those of earlier runs included
  int64_t n_failed = 0;  // of those done
  int64_t n_new = 0;     // done in this run
  int64_t n_tokens = 0;  // generated in this run
  Duration elapsed;      // of this run
};

// "120/1000 rows (12 %), 2 with errors, 345 tokens/s, 12m03s left"
std::string ProgressText(const Progress& progress);

// The same behind a bar in brackets, cut or filled to `n_columns`.
std::string ProgressBar(const Progress& progress, int32_t n_columns);

// What a run comes to, for people and for programs; both end with a line feed.
std::string EndText(const Progress& end, const Totals& totals);
std::string EndJson(const Progress& end, const Totals& totals);

// "7s", "12m03s", "3h02m", "4d06h"
std::string DurationText(Duration duration);

}  // namespace sluice::batch
