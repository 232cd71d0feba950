// What was measured, for people and for programs. Pure functions.

#pragma once

#include <string>

#include "load/options.h"
#include "load/results.h"
#include "load/runner.h"

namespace sluice::load {

std::string TextReport(const LoadOptions& options, const Results& results);
std::string JsonReport(const LoadOptions& options, const Results& results);
// One line, without its end.
std::string ProgressText(const Progress& progress);

}  // namespace sluice::load
