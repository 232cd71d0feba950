// The model families: which one a folder or a file is of. Adding one is a line in models.cc and an
// alternative in loader.h.

#pragma once

#include <cstdint>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/model_place.h"

namespace sluice::model {

enum class Family : uint8_t { kDeepseekV41, kDense };

// By model_type of config.json; a GGUF file is of the only family that has them, which looks at
// its architecture. kUnsupported with the known names for a model_type that is none of them. A
// folder whose config.json cannot be read or names none is taken for the first family, which says
// what is wrong with it.
Result<Family> FamilyOf(FileSystem& fs, const ModelPlace& place);

}  // namespace sluice::model
