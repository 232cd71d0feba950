#include "codec/dialect/responses/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "codec/dialect/field.h"
#include "codec/dialect/image_url.h"

namespace sluice::codec::responses {
namespace {

struct DetailName {
  std::string_view name;
  ImageDetail detail;
};
constexpr DetailName kDetails[] = {{"low", ImageDetail::kLow},
                                   {"high", ImageDetail::kHigh},
                                   {"original", ImageDetail::kOriginal},
                                   {"auto", ImageDetail::kAuto}};

Status CheckImageShape(const std::string& path, const JsonValue& block) {
  std::optional<std::string_view> url, file, detail;
  SLUICE_TRY(ReadString(path + ".image_url", block.Find("image_url"), url));
  SLUICE_TRY(ReadString(path + ".file_id", block.Find("file_id"), file));
  SLUICE_TRY(ReadString(path + ".detail", block.Find("detail"), detail));
  if (detail && std::ranges::find(kDetails, *detail, &DetailName::name) == std::end(kDetails)) {
    return WrongValue(path + ".detail", "one of low, high, original, auto", block.Find("detail"));
  }
  return Status::Ok();
}

Status CheckBlockShape(const std::string& path, const JsonValue& block, const Profile& profile) {
  if (!block.is_object()) return WrongValue(path, "an object", block);
  const std::string_view types =
      profile.extensions ? "one of input_text, output_text, input_image, input_file, refusal"
                         : "one of input_text, output_text, input_image, input_file";
  JsonValue type = block.Find("type");
  if (!type.exists()) return Missing(path + ".type", types);
  std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  if (name == "input_file") return Status::Ok();
  if (name == "input_image") return CheckImageShape(path, block);
  const bool is_refusal = name == "refusal" && profile.extensions;
  if (name != "input_text" && name != "output_text" && !is_refusal)
    return WrongValue(path + ".type", types, type);
  const char* field = is_refusal ? "refusal" : "text";
  JsonValue text = block.Find(field);
  if (!text.exists()) return Missing(fmt::format("{}.{}", path, field), "a string");
  return text.is_string() ? Status::Ok()
                          : WrongValue(fmt::format("{}.{}", path, field), "a string", text);
}

std::string_view StringAt(const JsonValue& object, std::string_view key) {
  JsonValue value = object.Find(key);
  return value.is_string() ? value.AsString() : std::string_view();
}

Status ReadImage(const ContentPlace& place, int32_t i, const JsonValue& block, Message& message) {
  const std::string where = fmt::format("{}.{}[{}]", place.item, place.field, i);
  if (message.role == Role::kAssistant) {
    return Status::Invalid(
        fmt::format("{}: Image in assistant message is unsupported", place.item));
  }
  const bool has_url = block.Find("image_url").is_string();
  const bool has_file = block.Find("file_id").is_string();
  if (!has_url && !has_file) {
    return Status::Invalid(where + ": input_image must have image_url or file_id");
  }
  if (has_url && has_file) {
    return Status::Invalid(where + ": input_image cannot have both image_url and file_id");
  }
  if (has_file) {
    return Status::Invalid(
        where + ": file_id is not supported. Pass the image as a base64 data url instead.");
  }
  const std::string_view url = StringAt(block, "image_url");
  SLUICE_TRY(CheckImageUrl(place.item, url));
  if (!place.reads_images) {
    return Status::InvalidField(
        where,
        fmt::format("`{}` is of type input_image, but this model reads text only; send blocks of "
                    "type input_text",
                    where));
  }
  const DetailName* detail =
      std::ranges::find(kDetails, StringAt(block, "detail"), &DetailName::name);
  message.images.push_back(
      {.offset = message.text.size(),
       .is_url = IsWebUrl(url),
       .source = std::string(url),
       .detail = detail == std::end(kDetails) ? ImageDetail::kHigh : detail->detail,
       .path = place.item});
  return Status::Ok();
}

}  // namespace

Status CheckContentShape(const std::string& path,
                         const JsonValue& content,
                         const Profile& profile) {
  if (content.is_string()) return Status::Ok();
  if (!content.is_array()) return WrongValue(path, "a string or a list of blocks", content);
  int32_t i = 0;
  for (JsonValue block : content.elements())
    SLUICE_TRY(CheckBlockShape(fmt::format("{}[{}]", path, i++), block, profile));
  return Status::Ok();
}

Status ReadContent(const ContentPlace& place, const JsonValue& content, Message& message) {
  if (content.is_string()) {
    message.text += content.AsString();
    return Status::Ok();
  }
  int32_t i = 0;
  for (JsonValue block : content.elements()) {
    if (i > 0) message.text += "\n\n";
    const std::string_view type = StringAt(block, "type");
    if (type == "input_image") {
      SLUICE_TRY(ReadImage(place, i, block, message));
    } else if (type == "input_file") {
      message.text += "[Unsupported Document]";
    } else {
      message.text += StringAt(block, type == "refusal" ? "refusal" : "text");
    }
    ++i;
  }
  return Status::Ok();
}

}  // namespace sluice::codec::responses
