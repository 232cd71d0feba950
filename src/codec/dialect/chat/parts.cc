#include "codec/dialect/chat/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "codec/dialect/field.h"
#include "codec/dialect/image_url.h"

namespace sluice::codec::chat {
namespace {

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
  const std::string path = fmt::format(".messages[{}]", message_index);
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
    const std::string_view source = image.Find(type == "file" ? "file_data" : "url").AsString();
    const bool is_too_long = IsWebUrl(source) && source.size() > kMaxImageUrlBytes;
    SLUICE_TRY(
        CheckImageUrl(is_too_long ? fmt::format("{}.image_url.url[{}]", path, i) : path, source));
    message.images.push_back({.offset = message.text.size(),
                              .is_url = IsWebUrl(source),
                              .source = std::string(source),
                              .detail = DetailOf(image.Find("detail")),
                              .path = path});
    ++i;
  }
  return Status::Ok();
}

}  // namespace sluice::codec::chat
