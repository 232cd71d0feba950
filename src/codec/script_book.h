// ScriptBook: a script file (spec script-format.md), which replaces the model by a list of raw
// outputs.
//
// A line is chosen in request preparation, while messages and tools are still at hand; from then on
// it travels as ids with the request. Thread-safe: uses are counted atomically.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/conversation.h"
#include "codec/format.h"
#include "wire/request.h"

namespace sluice::codec {

class ScriptBook {
 public:
  // Names line and key of the first error. `n_vocabulary`: ids must be below it.
  static Result<ScriptBook> Parse(std::string_view text, int32_t n_vocabulary);

  ScriptBook(ScriptBook&&) noexcept;
  ~ScriptBook();

  // Takes the first line with uses left whose conditions hold, fitted to the request; SCRIPT
  // EXHAUSTED if none. Its text becomes tokens of `format`, markup as control tokens. `api`: the
  // dialect's name. With n > 1 one line serves all choices.
  std::shared_ptr<const wire::ScriptPlay> Choose(std::string_view api,
                                                 const DecodedRequest& request,
                                                 Format format);

 private:
  struct Lines;
  explicit ScriptBook(std::unique_ptr<Lines> lines);
  std::unique_ptr<Lines> lines_;
};

}  // namespace sluice::codec
