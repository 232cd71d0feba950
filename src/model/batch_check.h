// Whether a batch is one that a model can run: what Model::Check asks of every family. Pure.

#pragma once

#include "base/status.h"
#include "model/model.h"

namespace sluice::model {

// kInvalidArgument, naming row and value: rows out of order, positions, tokens or media out of
// range, blocks or history missing, more than the limits.
Status CheckBatch(const ModelInfo& info, const StepBatch& batch, const BatchLimits& limits);

}  // namespace sluice::model
