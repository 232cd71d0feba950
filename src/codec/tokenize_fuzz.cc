// Body bytes through /tokenize and /detokenize: no crash, every answer is JSON, and every refusal
// is a 4xx whose body is JSON of bounded size.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "codec/sample_format_test_impl.h"
#include "codec/tokenize.h"

namespace {

const sluice::codec::ModelCard kCard{.name = "deepseek-flash", .n_context = 4096};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const sluice::codec::Dialect& chat = sluice::codec::DialectOf(sluice::codec::Api::kChat);
  const sluice::codec::PrepareContext context{
      .model = kCard, .format = sluice::codec::SampleFormat(), .strict = (data[0] & 1) != 0};
  std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto answer = (data[0] & 2) != 0 ? sluice::codec::Tokenize(chat, body, context)
                                         : sluice::codec::Detokenize(chat, body, context);
  if (answer) {
    SLUICE_CHECK(sluice::Json::Parse(answer->body).has_value());
    return 0;
  }
  SLUICE_CHECK(sluice::RowOf(answer.error().code()).http_status / 100 == 4);
  const std::string text = chat.error_body(answer.error(), "req");
  SLUICE_CHECK(text.size() < 4096);
  SLUICE_CHECK(sluice::Json::Parse(text).has_value());
  return 0;
}
