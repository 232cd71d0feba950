// Responses bodies through Prepare, with a store that knows one response: no crash, every refusal
// is a 4xx whose body is JSON of bounded size, and what was accepted can be gone on from.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "base/json.h"
#include "codec/dialect.h"
#include "codec/dialect/responses/encode.h"
#include "codec/dialect/responses/response_store.h"
#include "codec/sample_format_test_impl.h"

namespace {

namespace codec = sluice::codec;
using codec::responses::ResponseStore;

const codec::ModelCard kCard{.name = "deepseek-flash", .n_context = 4096};

const codec::Dialect& Responses() {
  return codec::Dialects()[static_cast<size_t>(codec::Api::kResponses)];
}

void Fill(ResponseStore& store) {
  store.Keep(sluice::KeyId(1), "resp_1",
             {.head = R"({"id":"resp_1")",
              .output = {{.id = "rs_resp_1_0",
                          .text = R"({"type":"reasoning","content":[{"type":"t","text":"so"}]})"},
                         {.id = "fc_resp_1_1",
                          .text = R"({"type":"function_call","call_id":"c","name":"f",)"
                                  R"("namespace":"n","arguments":"{}"})"}},
              .input = R"([{"role":"user","content":"x"}])"});
}

// What the request is kept as is read again with the next one.
void CheckKept(const codec::AnswerSpec& spec, ResponseStore& store) {
  std::string out;
  codec::responses::Encoder encoder(spec, {.id = "2", .created = {}, .fingerprint = ""});
  encoder.OnEvent(0, {.kind = codec::OutputKind::kContent, .text = "hi", .logprobs = {}}, out);
  encoder.End(0, {}, nullptr, out);
  encoder.Finish({}, out);
  if (!spec.stream) SLUICE_CHECK(sluice::Json::Parse(out).has_value());
  if (spec.keep.store == nullptr) return;
  SLUICE_CHECK(store.Find(sluice::KeyId(1), "resp_2").has_value());
  auto next = codec::Prepare(
      Responses(), R"({"model":"deepseek-flash","previous_response_id":"resp_2","input":"y"})",
      {.model = kCard,
       .format = sluice::codec::SampleFormat(),
       .responses = &store,
       .key = sluice::KeyId(1)});
  // Together they may be too long for the context, or for a request.
  if (!next) SLUICE_CHECK(sluice::RowOf(next.error().code()).http_status / 100 == 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ResponseStore store(
      {.n_bytes = sluice::kMiB, .n_responses = 4, .age = sluice::Duration::Seconds(9)});
  Fill(store);
  std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  codec::PrepareContext context{
      .model = kCard,
      .format = sluice::codec::SampleFormat(),
      .strict = (data[0] & 1) != 0,
      .profile = (data[0] & 2) != 0 ? codec::Profile::Reference() : codec::Profile(),
      .responses = &store,
      .key = sluice::KeyId(1)};
  auto prepared = codec::Prepare(Responses(), body, context);
  if (prepared) {
    SLUICE_CHECK(prepared->generate.n_max >= 1 && prepared->answer.n_choices == 1);
    CheckKept(prepared->answer, store);
    return 0;
  }
  const sluice::Status& status = prepared.error();
  SLUICE_CHECK(sluice::RowOf(status.code()).http_status / 100 == 4);
  std::string text = Responses().error_body(status, "req");
  SLUICE_CHECK(text.size() < 4096);
  SLUICE_CHECK(sluice::Json::Parse(text).has_value());
  return 0;
}
