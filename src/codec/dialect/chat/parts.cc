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
    if (name == "image_url") return CheckImageShape(value_path, value);
    return value.is_object() ? Status::Ok() : WrongValue(value_path, "an object", value);
  }
  return WrongValue(path + ".type", "one of text, image_url, file", type);
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

Status ReadContent(const ContentPlace& place, const JsonValue& content, std::string& text) {
  if (content.is_string()) {
    text = content.AsString();
    return Status::Ok();
  }
  int32_t i = 0;
  for (JsonValue part : content.elements()) {
    std::string_view type = part.Find("type").AsString();
    if (type == "text") {
      if (i > 0) text += "\n\n";
      text += part.Find("text").AsString();
      ++i;
      continue;
    }
    if (place.is_assistant) return Status::Invalid("Image in assistant message is not supported");
    if (type == "image_url") {
      std::string_view url = part.Find("image_url").Find("url").AsString();
      const bool is_too_long = IsWebUrl(url) && url.size() > kMaxImageUrlBytes;
      SLUICE_TRY(CheckImageUrl(
          is_too_long ? fmt::format(".messages[{}].image_url.url[{}]", place.message, i)
                      : fmt::format(".messages[{}]", place.message),
          url));
    }
    std::string param = fmt::format("messages[{}].content[{}]", place.message, i);
    return Status::InvalidField(
        param,
        fmt::format("`{}` is of type {}, but this model reads text only; send parts of type text",
                    param, type));
  }
  return Status::Ok();
}

}  // namespace sluice::codec::chat
