// ResponseReader: bytes of one HTTP/1.1 response in, status and body out. Beast does the parsing.
// No sockets. Owned by one thread.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::load {

class ResponseReader {
 public:
  ResponseReader();
  ~ResponseReader();
  ResponseReader(ResponseReader&&) noexcept;
  ResponseReader& operator=(ResponseReader&&) noexcept;

  // Takes bytes from the front of `bytes` and returns how many; the caller keeps the rest and gives
  // it again, longer. Appends what is body to `body`. An error is final.
  Result<size_t> Feed(std::string_view bytes, std::string& body);
  // The connection has ended. An error if the response had not.
  Status End();

  bool head_done() const;
  bool done() const;
  // Of a head that is done.
  int status() const;
  bool is_event_stream() const;
  bool keep_alive() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace sluice::load
