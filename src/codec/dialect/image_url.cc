#include "codec/dialect/image_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace sluice::codec {
namespace {

bool IsBase64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  return text.find_first_not_of(kAlphabet) == std::string_view::npos;
}

}  // namespace

bool IsWebUrl(std::string_view url) {
  constexpr std::string_view kScheme = "http";
  return url.size() >= kScheme.size() &&
         std::ranges::equal(url.substr(0, kScheme.size()), kScheme, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; });
}

Status CheckImageUrl(std::string_view where, std::string_view url) {
  if (IsWebUrl(url)) {
    if (url.size() <= kMaxImageUrlBytes) return Status::Ok();
    return Status::Invalid(fmt::format(
        "{}: image_url.url external link length {} too long, max link length {}. Consider passing "
        "file data directly with base64 data url instead.",
        where, url.size(), kMaxImageUrlBytes));
  }
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kEncoding = ";base64,";
  size_t encoding = url.find(kEncoding);
  if (!url.starts_with(kScheme) || encoding == std::string_view::npos) {
    return Status::Invalid(fmt::format("{}: Unsupported image_url format", where));
  }
  std::string_view media = url.substr(kScheme.size(), encoding - kScheme.size());
  constexpr std::string_view kMedia[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
  if (std::ranges::find(kMedia, media) == std::end(kMedia)) {
    return Status::Invalid(fmt::format(
        "{}: You have uploaded an unsupported image. Please make sure your image is valid and has "
        "one of the following formats: webp, png, jpeg, and gif.",
        where));
  }
  if (IsBase64(url.substr(encoding + kEncoding.size()))) return Status::Ok();
  return Status::Invalid(fmt::format("{}: Invalid base64 data", where));
}

}  // namespace sluice::codec
