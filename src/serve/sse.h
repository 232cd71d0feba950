// BodyFrames: a body of unknown length on its way to the socket. Whatever was appended between
// Begin and Write leaves as one HTTP chunk in one piece of memory, so that it can leave in one
// write. hop 10, last part. Owned by the net thread.

#pragma once

#include <string>
#include <string_view>

#include "serve/response.h"

namespace sluice::serve {

class BodyFrames {
 public:
  // kChunked or kClose.
  explicit BodyFrames(Framing framing) : framing_(framing) {}

  // Where the encoder appends the next piece.
  std::string& Begin();

  // The bytes of the piece, valid until the next Begin; empty if nothing was appended. `is_last`
  // ends the body.
  std::string_view Write(bool is_last);

 private:
  const Framing framing_;
  std::string bytes_;
};

}  // namespace sluice::serve
