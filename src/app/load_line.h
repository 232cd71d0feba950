// LoadLine: one line on stderr that says how far a model is on its way into memory. It is written
// over, and only where loading takes long enough to be noticed. Owned by one thread.

#pragma once

#include <string>

#include "base/time.h"
#include "wire/load.h"

namespace sluice::app {

// "reading weights:  37 %, 1.50 GB/s, 3 s left, model-00003.safetensors"
std::string LoadText(const wire::LoadProgress& loading);

class LoadLine {
 public:
  void Show(const wire::LoadProgress& loading);
  void Clear();

 private:
  Duration shown_at_;  // of the loading
  bool is_shown_ = false;
};

}  // namespace sluice::app
