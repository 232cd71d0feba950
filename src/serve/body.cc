#include "serve/body.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

namespace sluice::serve {
namespace {

// Output grows by this much at a time, so that a bomb is noticed one step beyond the limit.
constexpr size_t kStepBytes = 256 * 1024;
// Largest zstd window: 2^27 is what decoders must support (RFC 8878 recommends 8 MiB); bounds its
// memory.
constexpr int kMaxWindowLog = 27;

Status TooLarge(int64_t max_bytes) {
  return Status(ErrorCode::kTooLarge,
                fmt::format("the decoded request body exceeds {} bytes", max_bytes));
}

Status Broken(std::string_view encoding) {
  return Status::InvalidField("Content-Encoding",
                              fmt::format("the request body is not valid {} data", encoding));
}

// Makes room for one more step, or refuses when even one byte more is too much.
Status Grow(std::string& out, size_t n_used, int64_t max_bytes) {
  // One byte above the limit, so that exactly max_bytes still passes and its successor is seen.
  size_t want = std::min(n_used + kStepBytes, static_cast<size_t>(max_bytes) + 1);
  if (n_used >= want) return TooLarge(max_bytes);
  out.resize(want);
  return Status::Ok();
}

struct InflateEnd {
  void operator()(z_stream* z) const { inflateEnd(z); }
};

Result<std::string> Inflate(std::string_view encoding, std::string_view body, int64_t max_bytes) {
  z_stream z{};
  // +32: gzip or zlib by the header; clients' "deflate" is zlib (RFC 9110 §8.4.1.2).
  if (inflateInit2(&z, 15 + 32) != Z_OK) return Status(ErrorCode::kInternal, "inflateInit2 failed");
  std::unique_ptr<z_stream, InflateEnd> end(&z);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  z.avail_in = static_cast<uInt>(body.size());
  std::string out;
  size_t n_used = 0;
  while (true) {
    SLUICE_TRY(Grow(out, n_used, max_bytes));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + n_used);
    z.avail_out = static_cast<uInt>(out.size() - n_used);
    int code = inflate(&z, Z_NO_FLUSH);
    n_used = out.size() - z.avail_out;
    if (static_cast<int64_t>(n_used) > max_bytes) return TooLarge(max_bytes);
    if (code == Z_STREAM_END && z.avail_in > 0 && encoding != "deflate") {
      // Another member (RFC 1952 §2.2); what is none is refused by the next turn.
      if (inflateReset(&z) != Z_OK) return Broken(encoding);
      continue;
    }
    if (code == Z_STREAM_END) break;
    if (code != Z_OK || (z.avail_in == 0 && z.avail_out > 0)) return Broken(encoding);
  }
  if (z.avail_in > 0) return Broken(encoding);
  out.resize(n_used);
  return out;
}

struct FreeZstd {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Result<std::string> Unzstd(std::string_view body, int64_t max_bytes) {
  std::unique_ptr<ZSTD_DCtx, FreeZstd> context(ZSTD_createDCtx());
  if (!context) return Status(ErrorCode::kInternal, "ZSTD_createDCtx failed");
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  std::string out;
  size_t n_used = 0;
  while (true) {
    SLUICE_TRY(Grow(out, n_used, max_bytes));
    ZSTD_outBuffer to{out.data() + n_used, out.size() - n_used, 0};
    size_t rest = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(rest)) return Broken("zstd");
    n_used += to.pos;
    if (static_cast<int64_t>(n_used) > max_bytes) return TooLarge(max_bytes);
    if (rest == 0 && in.pos == in.size) break;
    if (rest == 0) continue;  // another frame (RFC 8878 §3)
    if (in.pos == in.size && to.pos < to.size) return Broken("zstd");
  }
  out.resize(n_used);
  return out;
}

}  // namespace

bool CanDecode(std::string_view encoding) {
  return encoding == "gzip" || encoding == "x-gzip" || encoding == "deflate" || encoding == "zstd";
}

Result<std::string> DecodeBody(std::string_view encoding,
                               std::string_view body,
                               int64_t max_bytes) {
  if (body.empty()) return Broken(encoding);
  return encoding == "zstd" ? Unzstd(body, max_bytes) : Inflate(encoding, body, max_bytes);
}

}  // namespace sluice::serve
