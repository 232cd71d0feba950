// Body bytes through Prepare as Messages: no crash, and every refusal is a 4xx whose body is JSON
// of bounded size. The first byte chooses the profile.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "codec/dialect.h"
#include "codec/sample_format_test_impl.h"

namespace {

using sluice::codec::Profile;

const sluice::codec::ModelCard kCard{
    .name = "deepseek-flash", .n_context = 4096, .reads_images = true};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const sluice::codec::Dialect& dialect = sluice::codec::DialectOf(sluice::codec::Api::kMessages);
  Profile profile = (data[0] & 1) != 0 ? Profile::Reference() : Profile();
  profile.messages_web_search_drop = (data[0] & 2) != 0;
  profile.messages_prefill_continue = (data[0] & 4) != 0;
  profile.missing_reasoning_reject = (data[0] & 8) != 0;
  std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  auto prepared = sluice::codec::Prepare(
      dialect, body, {.model = kCard, .format = sluice::codec::SampleFormat(), .profile = profile});
  if (prepared) {
    SLUICE_CHECK(prepared->generate.n_max >= 1 && prepared->answer.n_choices == 1);
    SLUICE_CHECK(static_cast<int64_t>(prepared->generate.prompt->size()) <= kCard.n_context);
    return 0;
  }
  const sluice::Status& status = prepared.error();
  SLUICE_CHECK(sluice::RowOf(status.code()).http_status / 100 == 4);
  std::string text = dialect.error_body(status, "req");
  // Eight ids of calls and a model's name may be quoted, each shortened and escaped.
  SLUICE_CHECK(text.size() < 8192);
  SLUICE_CHECK(sluice::Json::Parse(text).has_value());
  return 0;
}
