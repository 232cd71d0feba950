// Text to ids: megabytes a second of one thread that has met the short pieces of the text before.
// Each text is first encoded by the slow and obvious encoder, and the two must agree. Seconds are
// those of the processor, so that a busy machine does not change them.
//
//   token_bpe_bench [tokenizer.json]      default: the cut one of the golden cases; run in the
//                                         repository's folder

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "token/bpe.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::token {
namespace {

constexpr int kRounds = 9;

std::string ReadFile(const char* path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  SLUICE_CHECK(!text.str().empty());  // run in the repository's folder
  return text.str();
}

// Median and extremes of the seconds of one call of `work`.
template <typename Work>
std::vector<double> Measure(int n_calls, Work work) {
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    for (int i = 0; i < n_calls; ++i) work();
    seconds.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / n_calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[kRounds / 2], seconds.front(), seconds.back()};
}

void BenchText(const char* name, const Vocabulary& vocabulary, const std::string& text) {
  const Bpe bpe(vocabulary);
  std::vector<TokenId> ids;
  bpe.Encode(text, ids);
  SLUICE_CHECK(TextsOf(vocabulary, ids) == SlowEncoder(vocabulary).Encode(text));
  const size_t n_tokens = ids.size();
  constexpr size_t kBytesOfRound = 2'000'000;
  const int n_calls = static_cast<int>(1 + kBytesOfRound / text.size());
  const std::vector<double> seconds = Measure(n_calls, [&] {
    ids.clear();
    bpe.Encode(text, ids);
    SLUICE_CHECK(ids.size() == n_tokens);
  });
  const auto n_bytes = static_cast<double>(text.size());
  std::printf("%-22s %7.1f MB/s  [%.1f, %.1f]  %6.0f ns a token, %.2f bytes a token\n", name,
              n_bytes / seconds[0] / 1e6, n_bytes / seconds[2] / 1e6, n_bytes / seconds[1] / 1e6,
              1e9 * seconds[0] / static_cast<double>(n_tokens),
              n_bytes / static_cast<double>(n_tokens));
}

// What the slow encoder cannot do: the text must come back, and linear-logarithmic time shows.
void BenchRun(const Vocabulary& vocabulary, size_t n_bytes) {
  const Bpe bpe(vocabulary);
  const std::string text(n_bytes, 'a');
  std::vector<TokenId> ids;
  const std::vector<double> seconds = Measure(1, [&] {
    ids.clear();
    bpe.Encode(text, ids);
  });
  std::string joined;
  for (const TokenId id : ids) joined += vocabulary.text(id);
  SLUICE_CHECK(joined == text);
  std::printf("%-22s %7.1f MB/s\n", fmt::format("one letter, {} KB", n_bytes / 1000).c_str(),
              static_cast<double>(n_bytes) / seconds[0] / 1e6);
}

std::string Numbers() {
  std::string text = "[";
  for (uint64_t i = 0; i < 4000; ++i) {
    const auto value = static_cast<double>(RandomBits({.seed = 1, .position = i}) % 1'000'000'007);
    text += fmt::format("{{\"id\": {}, \"value\": {}}},\n ", i, value / 1000);
  }
  return text + "]";
}

std::string Chinese() {
  const std::string_view paragraph =
      "推理服务把一个请求变成一串词元：先把文字切成小块，再按照合并的次序得到编号。"
      "模型逐个生成后面的词元，缓存保存每一层的键和值，所以同样的前缀只需要计算一次。"
      "如果内存不够，旧的块会被移到磁盘；当客户再次提出问题时，它们又被读回来。"
      "今天北京的天气很好，孩子们在公园里放风筝，老人坐在长椅上聊天、下棋、看报纸。"
      "科学家发现，这种材料在低温下的电阻几乎为零，因此可以用来制造强大的磁铁。";
  std::string text;
  for (int i = 0; i < 40; ++i) text += paragraph;
  return text;
}

void Bench(const char* path) {
  const std::string file = ReadFile(path);
  const std::vector<double> parse =
      Measure(1, [&] { SLUICE_CHECK(Vocabulary::Parse(file).has_value()); });
  const Result<Vocabulary> vocabulary = Vocabulary::Parse(file);
  SLUICE_CHECK(vocabulary.has_value());
  const std::vector<double> build = Measure(1, [&] { const Bpe bpe(*vocabulary); });
  std::printf("%-22s %7.1f ms, then %.1f ms for the tables\n", "reading the file", 1e3 * parse[0],
              1e3 * build[0]);
  BenchText("source code", *vocabulary, ReadFile("src/token/vocabulary.cc"));
  BenchText("English and Markdown", *vocabulary, ReadFile("STYLE.md"));
  BenchText("Chinese", *vocabulary, Chinese());
  BenchText("numbers in JSON", *vocabulary, Numbers());
  BenchRun(*vocabulary, 100'000);
  BenchRun(*vocabulary, 1'000'000);
}

}  // namespace
}  // namespace sluice::token

int main(int argc, char** argv) {
  sluice::token::Bench(argc > 1 ? argv[1] : "tests/golden/tokenizer/tokenizer.json");
  return 0;
}
