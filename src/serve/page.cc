#include "serve/page.h"

#include <algorithm>

#include "base/status.h"

namespace sluice::serve {
namespace {

// `require-trusted-types-for` makes the browser itself refuse innerHTML and its like.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace

Response PageResponse(std::string_view path, const RequestHead& head, std::string_view request_id) {
  const std::span<const PageFile> files = PageFiles();
  const auto file = std::ranges::find(files, path, &PageFile::path);
  if (file == files.end()) {
    return ErrorResponse(Status(ErrorCode::kNotFound, "the page has no such file"),
                         ErrorDialect(head.is_anthropic), request_id);
  }
  Response response;
  response.content_type = file->content_type;
  response.headers = {
      {"Content-Security-Policy", std::string(kPolicy)},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      // Asked for anew each time, and sent anew only after an update of the program.
      {"Cache-Control", "no-cache"},
      {"ETag", std::string(file->etag)},
  };
  if (head.if_none_match.find(file->etag) != std::string::npos) {
    response.status = 304;
  } else {
    response.body = file->bytes;
  }
  return response;
}

}  // namespace sluice::serve
