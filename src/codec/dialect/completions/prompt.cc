#include "codec/dialect/completions/prompt.h"

#include <fmt/format.h>

#include "codec/dialect/field.h"
#include "codec/dialect/token_ids.h"

namespace sluice::codec::completions {
namespace {

constexpr std::string_view kAllowed = "a string, a list of token ids, or a list of one of them";

Status ReadIds(const std::string& path,
               const JsonValue& value,
               int32_t n_vocabulary,
               RawPrompt& prompt) {
  if (value.size() == 0)
    return Status::InvalidField("prompt", fmt::format("`{}` must hold at least one token", path));
  return Named(ReadTokenIds(path, value, n_vocabulary, prompt.ids), "prompt");
}

}  // namespace

Status ReadPrompt(const JsonValue& value, int32_t n_vocabulary, RawPrompt& prompt) {
  if (value.is_string()) {
    prompt.text = value.AsString();
    return Status::Ok();
  }
  if (!value.is_array()) return Named(WrongValue("prompt", kAllowed, value), "prompt");
  if (value.size() == 0)
    return Status::InvalidField("prompt", "`prompt` must hold at least one prompt");
  JsonValue first = *value.elements().begin();
  if (first.is_number()) return ReadIds("prompt", value, n_vocabulary, prompt);
  if (!first.is_string() && !first.is_array())
    return Named(WrongValue("prompt[0]", "a string or a list of token ids", first), "prompt");
  if (value.size() > 1) {
    return Status::InvalidField(
        "prompt", fmt::format("`prompt` holds {} prompts, but one request answers one; `n` asks "
                              "for several answers to it",
                              value.size()));
  }
  if (first.is_array()) return ReadIds("prompt[0]", first, n_vocabulary, prompt);
  prompt.text = first.AsString();
  return Status::Ok();
}

}  // namespace sluice::codec::completions
