// The web page: the files of web/ as the binary carries them, and the answers that bring them to a
// browser. Pure; everything here is constant.

#pragma once

#include <span>
#include <string_view>

#include "serve/request_parser.h"
#include "serve/response.h"

namespace sluice::serve {

struct PageFile {
  std::string_view path;  // below /web/
  std::string_view content_type;
  std::string_view etag;  // quoted; of the bytes
  std::string_view bytes;
};

// Made by cmake/embed_page.cmake from the folder web/.
std::span<const PageFile> PageFiles();

// What a browser gets at /.
inline constexpr std::string_view kFirstPage = "index.html";

// 200 with the file, 304 if the browser has it, or 404. The headers forbid the page everything but
// its own files and this server: whatever a model writes, nothing of it can run or be fetched.
Response PageResponse(std::string_view path, const RequestHead& head, std::string_view request_id);

}  // namespace sluice::serve
