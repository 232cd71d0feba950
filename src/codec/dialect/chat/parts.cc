#include "codec/dialect/chat/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "codec/dialect/field.h"

namespace sluice::codec::chat {
namespace {

// spec recipe.md §9
constexpr size_t kMaxImageUrlBytes = 8192;

Status CheckImageShape(const std::string& path, const JsonValue& image) {
  if (!image.is_object()) return WrongValue(path, "an object", image);
  std::optional<std::string_view> url, detail;
  SLUICE_TRY(ReadString(path + ".url", image.Find("url"), url));
  if (!url) return Missing(path + ".url", "a string");
  SLUICE_TRY(ReadString(path + ".detail", image.Find("detail"), detail));
  constexpr std::string_view kDetails[] = {"low", "high", "original", "auto"};
  if (detail && std::ranges::find(kDetails, *detail) == std::end(kDetails)) {
    return WrongValue(path + ".detail", "one of low, high, original, auto", image.Find("detail"));
  }
  return Status::Ok();
}

Status CheckFileShape(const std::string& path, const JsonValue& file) {
  if (!file.is_object()) return WrongValue(path, "an object", file);
  std::optional<std::string_view> data;
  SLUICE_TRY(ReadString(path + ".file_data", file.Find("file_data"), data));
  return data ? Status::Ok() : Missing(path + ".file_data", "a string");
}

Status CheckPartShape(const std::string& path, const JsonValue& part) {
  if (!part.is_object()) return WrongValue(path, "an object", part);
  JsonValue type = part.Find("type");
  if (!type.exists()) return Missing(path + ".type", "one of text, image_url, file");
  std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  JsonValue value = part.Find(name);
  if (name == "text") {
    if (!value.exists()) return Missing(path + ".text", "a string");
    return value.is_string() ? Status::Ok() : WrongValue(path + ".text", "a string", value);
  }
  if (name == "image_url" || name == "file") {
    std::string value_path = fmt::format("{}.{}", path, name);
    if (!value.exists()) return Missing(value_path, "an object");
    return name == "image_url" ? CheckImageShape(value_path, value)
                               : CheckFileShape(value_path, value);
  }
  return WrongValue(path + ".type", "one of text, image_url, file", type);
}

ImageDetail DetailOf(const JsonValue& detail) {
  if (!detail.is_string()) return ImageDetail::kHigh;
  const std::string_view name = detail.AsString();
  if (name == "low") return ImageDetail::kLow;
  if (name == "original") return ImageDetail::kOriginal;
  return name == "auto" ? ImageDetail::kAuto : ImageDetail::kHigh;
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; });
}

bool IsBase64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  return text.find_first_not_of(kAlphabet) == std::string_view::npos;
}

// What the reference refuses whether images can be read or not.
Status CheckImageUrl(int32_t message, int32_t part, std::string_view url) {
  if (StartsWithIgnoringCase(url, "http")) {
    if (url.size() <= kMaxImageUrlBytes) return Status::Ok();
    return Status::Invalid(fmt::format(
        ".messages[{}].image_url.url[{}]: image_url.url external link length {} too long, max link "
        "length {}. Consider passing file data directly with base64 data url instead.",
        message, part, url.size(), kMaxImageUrlBytes));
  }
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kEncoding = ";base64,";
  size_t encoding = url.find(kEncoding);
  if (!url.starts_with(kScheme) || encoding == std::string_view::npos) {
    return Status::Invalid(fmt::format(".messages[{}]: Unsupported image_url format", message));
  }
  std::string_view media = url.substr(kScheme.size(), encoding - kScheme.size());
  constexpr std::string_view kMedia[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
  if (std::ranges::find(kMedia, media) == std::end(kMedia)) {
    return Status::Invalid(fmt::format(
        ".messages[{}]: You have uploaded an unsupported image. Please make sure your image is "
        "valid and has one of the following formats: webp, png, jpeg, and gif.",
        message));
  }
  if (IsBase64(url.substr(encoding + kEncoding.size()))) return Status::Ok();
  return Status::Invalid(fmt::format(".messages[{}]: Invalid base64 data", message));
}

}  // namespace

Status CheckContentShape(const std::string& path, const JsonValue& content) {
  if (content.is_string()) return Status::Ok();
  if (!content.is_array()) return WrongValue(path, "a string or a list of parts", content);
  int32_t i = 0;
  for (JsonValue part : content.elements())
    SLUICE_TRY(CheckPartShape(fmt::format("{}[{}]", path, i++), part));
  return Status::Ok();
}

Status ReadContent(int32_t message_index, const JsonValue& content, Message& message) {
  if (content.is_string()) {
    message.text = content.AsString();
    return Status::Ok();
  }
  int32_t i = 0;
  for (JsonValue part : content.elements()) {
    std::string_view type = part.Find("type").AsString();
    if (i > 0) message.text += "\n\n";
    if (type == "text") {
      message.text += part.Find("text").AsString();
      ++i;
      continue;
    }
    if (message.role == Role::kAssistant) {
      return Status::Invalid("Image in assistant message is not supported");
    }
    JsonValue image = part.Find(type);
    JsonValue source = image.Find(type == "file" ? "file_data" : "url");
    SLUICE_TRY(CheckImageUrl(message_index, i, source.AsString()));
    message.images.push_back({.offset = message.text.size(),
                              .is_url = StartsWithIgnoringCase(source.AsString(), "http"),
                              .source = std::string(source.AsString()),
                              .detail = DetailOf(image.Find("detail")),
                              .path = fmt::format(".messages[{}]", message_index)});
    ++i;
  }
  return Status::Ok();
}

}  // namespace sluice::codec::chat
