#include "conformance/codec/cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/base64_test_impl.h"

namespace sluice::conformance {
namespace {

std::string Text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const char* NameOf(ProfileName profile) {
  return profile == ProfileName::kReference ? "reference" : "default  ";
}

Difference DifferenceOf(const std::string& what, const Json& expected, const Json& got) {
  // As values: the order of members is not compared.
  if (nlohmann::json(expected) == nlohmann::json(got)) return "";
  const std::string e = Text(expected), g = Text(got);
  const size_t at = static_cast<size_t>(std::ranges::mismatch(e, g).in1 - e.begin());
  const size_t begin = at > 60 ? at - 60 : 0;
  return fmt::format("`{}` is …{}…, not …{}…", what, g.substr(std::min(begin, g.size()), 160),
                     e.substr(begin, 160));
}

const codec::Dialect* DialectOf(const Json& c) {
  const std::string name = c["api"];
  for (const codec::Dialect& dialect : codec::Dialects()) {
    if (name == dialect.name) return &dialect;
  }
  return nullptr;
}

std::string BodyOf(const Json& c) {
  if (c.contains("request_raw")) return c["request_raw"];
  if (c.contains("request_base64")) return codec::FromBase64(c["request_base64"].get<std::string>());
  return c["request"].dump();
}

codec::Profile ProfileOf(const Json& c, ProfileName name) {
  codec::Profile profile;
  if (name == ProfileName::kReference) profile = codec::Profile::Reference();
  const Json options = c.value("options", Json::object());
  profile.missing_reasoning_reject = options.value("missing_reasoning", "fill") == "reject";
  profile.responses_web_search_drop = options.value("responses_web_search", "drop") == "drop";
  profile.messages_web_search_drop = options.value("messages_web_search", "reject") == "drop";
  return profile;
}

codec::ModelCard CardOf(const Json& c) {
  codec::ModelCard card{.name = "deepseek-flash",
                        .aliases = {"DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"},
                        .reads_images = true};
  const Json options = c.value("options", Json::object());
  card.n_output_max = options.value("max_tokens_bound", card.n_output_max);
  card.n_context = c.value("context_limit", card.n_context);
  return card;
}

Result<codec::Prepared> PrepareBody(const Json& c, const std::string& body, const Suite& suite) {
  const codec::ModelCard card = CardOf(c);
  const Json options = c.value("options", Json::object());
  return codec::Prepare(*DialectOf(c), body,
                        {.model = card,
                         .format = suite.format,
                         .default_thinking = options.value("default_thinking", true),
                         .profile = ProfileOf(c, suite.profile)});
}

}  // namespace sluice::conformance
