// hop 10 of 10: after OnEvent, before the client.

#include "serve/sse.h"

namespace sluice::serve {
namespace {

// A chunk head of fixed width, to be filled in when the size is known (RFC 9112 §7.1 allows leading
// zeros).
constexpr std::string_view kBlankHead = "00000000\r\n";
constexpr int kSizeDigits = 8;

}  // namespace

std::string& BodyFrames::Begin() {
  bytes_.clear();
  if (framing_ == Framing::kChunked) bytes_ = kBlankHead;
  return bytes_;
}

std::string_view BodyFrames::Write(bool is_last) {
  if (framing_ == Framing::kClose) return bytes_;
  size_t n_body = bytes_.size() - kBlankHead.size();
  if (n_body == 0) {
    bytes_ = is_last ? "0\r\n\r\n" : "";
    return bytes_;
  }
  for (int i = kSizeDigits - 1; i >= 0; --i, n_body >>= 4)
    bytes_[i] = "0123456789abcdef"[n_body & 15];
  bytes_ += is_last ? "\r\n0\r\n\r\n" : "\r\n";
  return bytes_;
}

}  // namespace sluice::serve
