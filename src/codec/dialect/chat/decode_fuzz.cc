// Body bytes through Prepare: no crash, and every refusal is a 4xx whose body is JSON of bounded
// size.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "codec/dialect.h"
#include "codec/sample_format_test_impl.h"

namespace {

const sluice::codec::ModelCard kCard{.name = "deepseek-flash", .n_context = 4096};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const sluice::codec::Dialect& dialect = sluice::codec::Dialects()[0];
  const bool strict = (data[0] & 1) != 0;
  std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  auto prepared = sluice::codec::Prepare(
      dialect, body, {.model = kCard, .format = sluice::codec::SampleFormat(), .strict = strict});
  if (prepared) {
    const bool is_scored = prepared->generate.sampling.n_prompt_logprobs.has_value();
    SLUICE_CHECK(prepared->generate.n_max >= (is_scored ? 0 : 1));
    SLUICE_CHECK(prepared->answer.n_choices >= 1);
    SLUICE_CHECK(static_cast<int64_t>(prepared->generate.prompt->size()) <= kCard.n_context);
    return 0;
  }
  const sluice::Status& status = prepared.error();
  SLUICE_CHECK(sluice::RowOf(status.code()).http_status / 100 == 4);
  std::string text = dialect.error_body(status, "req");
  // A tool's name of 128 bytes and a model's may be quoted, each escaped.
  SLUICE_CHECK(text.size() < 4096);
  SLUICE_CHECK(sluice::Json::Parse(text).has_value());
  return 0;
}
