// One round of `./dev bench codec` (tools/bench_codec.py): the codec's work on files that the
// script has made, timed by the processor's clock, with what came out, so that the script can
// compare it with the official package's.
//
//   codec_codec_bench TOKENIZER_JSON WORK_DIR
//
// Reads from WORK_DIR: {code,english,chinese}.{warm,timed}.txt, request.json and next.json (chat
// requests, the second one turn longer), output.json (tokens of an answer to request.json). Prints
// one JSON object a line: {"name", "seconds", "digest"}; a digest is the SHA-256 of the tokens as
// text. Writes output.sse, the answer's frames.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/sha256.h"
#include "codec/answer.h"
#include "codec/dialect.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/turn_memory.h"

namespace sluice::codec {
namespace {

constexpr int kPasses = 5;                         // of a text, each by an encoder of its own
constexpr int kAnswers = 200;                      // in a row
constexpr int64_t kTurnBytes = int64_t{64} << 20;  // as a server has by default
constexpr double kNanosOfSecond = 1e9;

double ProcessorSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / kNanosOfSecond;
}

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  SLUICE_CHECK(!text.str().empty());  // the script writes them all
  return text.str();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(std::string_view name, double seconds, std::string_view result) {
  std::string digest;
  for (const std::byte b : Sha256(std::as_bytes(std::span(result)))) {
    digest += fmt::format("{:02x}", std::to_integer<int>(b));
  }
  fmt::print("{{\"name\": \"{}\", \"seconds\": {:.9f}, \"digest\": \"{}\"}}\n", name, seconds,
             digest);
}

std::string TextOf(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += fmt::format("{} ", id.value);
  return text;
}

// The text was never seen, but texts of its kind were: the state of a server at work.
void BenchText(const std::string& kind,
               const std::string& dir,
               const deepseek_v41::Format& format) {
  const std::string warm = ReadFile(dir + "/" + kind + ".warm.txt");
  const std::string timed = ReadFile(dir + "/" + kind + ".timed.txt");
  std::vector<double> seconds;
  std::vector<TokenId> ids;
  for (int i = 0; i < kPasses; ++i) {
    const token::Bpe bpe(format.vocabulary());
    ids.clear();
    bpe.Encode(warm, ids);
    ids.clear();
    const double start = ProcessorSeconds();
    bpe.Encode(timed, ids);
    seconds.push_back(ProcessorSeconds() - start);
  }
  Print("tokenize " + kind, Median(seconds), TextOf(ids));
}

double TimePrepare(const std::string& body, const PrepareContext& context, std::string& result) {
  const Dialect& chat = DialectOf(Api::kChat);
  const double start = ProcessorSeconds();
  const Result<Prepared> prepared = Prepare(chat, body, context);
  const double seconds = ProcessorSeconds() - start;
  SLUICE_CHECK(prepared);
  result = TextOf(*prepared->generate.prompt);
  return seconds;
}

// A conversation's first request, and the one that a round of calls later repeats it.
void BenchPrepare(const std::string& dir, const std::string& tokenizer) {
  const std::string first = ReadFile(dir + "/request.json");
  const std::string next = ReadFile(dir + "/next.json");
  const std::string warm = ReadFile(dir + "/code.warm.txt");
  const ModelCard card{.name = "deepseek-flash"};
  std::vector<double> seconds_first;
  std::vector<double> seconds_next;
  std::string result_first;
  std::string result_next;
  for (int i = 0; i < kPasses; ++i) {
    auto format = deepseek_v41::Format::Make(*token::Vocabulary::Parse(tokenizer));
    SLUICE_CHECK(format);
    std::vector<TokenId> ids;
    (*format)->bpe().Encode(warm, ids);
    TurnMemory turns(kTurnBytes);
    const PrepareContext context{.model = card, .format = **format, .turns = &turns};
    seconds_first.push_back(TimePrepare(first, context, result_first));
    seconds_next.push_back(TimePrepare(next, context, result_next));
  }
  Print("prepare first", Median(seconds_first), result_first);
  Print("prepare next", Median(seconds_next), result_next);
}

// One event a token, as decoding without drafts gives them.
void BenchOutput(const std::string& dir, const deepseek_v41::Format& format) {
  const ModelCard card{.name = "deepseek-flash"};
  TurnMemory turns(kTurnBytes);
  const PrepareContext context{.model = card, .format = format, .turns = &turns};
  const Dialect& chat = DialectOf(Api::kChat);
  const Result<Prepared> prepared = Prepare(chat, ReadFile(dir + "/request.json"), context);
  SLUICE_CHECK(prepared);
  const Result<Json> ids = Json::Parse(ReadFile(dir + "/output.json"));
  SLUICE_CHECK(ids);
  std::vector<wire::TokenEvent> events;
  for (const JsonValue id : ids->root().elements()) {
    events.emplace_back().tokens.push_back(TokenId(static_cast<int32_t>(id.AsInt64())));
  }
  std::string out;
  double seconds = 0;
  for (int i = 0; i < kAnswers; ++i) {
    Answer answer(chat, format, prepared->answer,
                  {.id = "0123456789abcdef", .created = {}, .fingerprint = "bench", .entropy = 7});
    out.clear();
    const double start = ProcessorSeconds();
    for (const wire::TokenEvent& event : events) answer.OnEvent(0, event, out);
    seconds += ProcessorSeconds() - start;
    answer.Finish(out);
  }
  std::ofstream(dir + "/output.sse", std::ios::binary) << out;
  Print("output", seconds / kAnswers, out);
}

void Run(const std::string& tokenizer_path, const std::string& dir) {
  const std::string tokenizer = ReadFile(tokenizer_path);
  const auto format = deepseek_v41::Format::Make(*token::Vocabulary::Parse(tokenizer));
  SLUICE_CHECK(format);
  for (const char* kind : {"code", "english", "chinese"}) BenchText(kind, dir, **format);
  BenchPrepare(dir, tokenizer);
  BenchOutput(dir, **format);
}

}  // namespace
}  // namespace sluice::codec

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: codec_codec_bench TOKENIZER_JSON WORK_DIR\n", stderr);
    return 2;
  }
  sluice::codec::Run(argv[1], argv[2]);
  return 0;
}
