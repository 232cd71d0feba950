#include "codec/dialect/messages/images.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/limits.h"
#include "codec/dialect/base64.h"
#include "codec/dialect/field.h"
#include "codec/dialect/image_url.h"

namespace sluice::codec::messages {
namespace {

std::string BlockPath(const ImagePlace& place) {
  if (place.part >= 0) {
    return fmt::format("messages.{}.content.{}.tool_result.content[{}]", place.message, place.block,
                       place.part);
  }
  return fmt::format("messages.{}.content[{}]", place.message, place.block);
}

std::string ImagePath(const ImagePlace& place) {
  if (place.is_system) return fmt::format("messages.{}", place.message);
  if (place.part >= 0)
    return fmt::format("messages.{}.content.{}.tool_result", place.message, place.block);
  return fmt::format("messages.{}.content[{}]", place.message, place.block);
}

Status CheckUrl(const ImagePlace& place, std::string_view url) {
  if (!IsWebUrl(url)) {
    std::string text = BlockPath(place) + ": invalid url: \"";
    AppendJsonEscaped(text, Shorten(url));
    return Status::Invalid(text + '"');
  }
  if (url.size() <= kMaxImageUrlBytes) return Status::Ok();
  return Status::Invalid(fmt::format(
      "{}: external link length {} too long, max link length {}. Consider passing file data "
      "directly with base64 data url instead.",
      BlockPath(place), url.size(), kMaxImageUrlBytes));
}

// Clients that pad wrongly are helped as long as they pad at all.
std::string WithPadding(std::string_view data) {
  if (!data.ends_with('=')) return std::string(data);
  while (data.ends_with('=')) data.remove_suffix(1);
  std::string padded(data);
  padded.append((4 - data.size() % 4) % 4, '=');
  return padded;
}

Status ReadData(const ImagePlace& place, const JsonValue& source, Image& image) {
  const std::string data = WithPadding(source.Find("data").AsString());
  if (!IsStrictBase64(data)) return Status::Invalid(BlockPath(place) + ": base64 decode error");
  if (std::ssize(data) / 4 * 3 > limits::kMaxImageBytes) {
    return Status::InvalidField(
        BlockPath(place),
        fmt::format("{}: the image has {} bytes, at most {} are allowed", BlockPath(place),
                    data.size() / 4 * 3, limits::kMaxImageBytes));
  }
  std::string_view media = source.Find("media_type").AsString();
  if (media == "image/jpg") media = "image/jpeg";
  image.source = fmt::format("data:{};base64,{}", media, data);
  return Status::Ok();
}

}  // namespace

Status AddImage(const ImagePlace& place, const JsonValue& source, Message& message) {
  Image image{.offset = message.text.size(), .path = ImagePath(place)};
  const std::string_view type = source.Find("type").AsString();
  if (type == "file") {
    return Status::Invalid(
        BlockPath(place) +
        ": file_id is not supported. Pass the image as a base64 data url instead.");
  }
  if (type == "url") {
    image.is_url = true;
    image.source = source.Find("url").AsString();
    SLUICE_TRY(CheckUrl(place, image.source));
  } else {
    SLUICE_TRY(ReadData(place, source, image));
  }
  message.images.push_back(std::move(image));
  return Status::Ok();
}

}  // namespace sluice::codec::messages
