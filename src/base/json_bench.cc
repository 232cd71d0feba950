// Writing and reading JSON: the text of one SSE event, and a chat request of 37 KB. Each round
// checks what it made. Seconds are those of the processor, so that a busy machine does not change
// them.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/json_writer.h"

namespace sluice {
namespace {

constexpr int kRounds = 9;

// Median and extremes of the nanoseconds of one call of `work`.
template <typename Work>
void Report(const char* name, int n_calls, size_t n_bytes, Work work) {
  std::vector<double> ns;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    for (int i = 0; i < n_calls; ++i) work();
    ns.push_back(1e9 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / n_calls);
  }
  std::sort(ns.begin(), ns.end());
  std::printf("%-28s %10.1f ns  [%.1f, %.1f]  %.2f GB/s\n", name, ns[kRounds / 2], ns.front(),
              ns.back(), static_cast<double>(n_bytes) / ns[kRounds / 2]);
}

void BenchString(const char* name, std::string_view text) {
  std::string out;
  Report(name, 1'000'000, text.size(), [&] {
    out.clear();
    JsonWriter(out).String(text);
    SLUICE_CHECK(out.size() >= text.size() + 2);
  });
  SLUICE_CHECK(Json::Parse(out)->root().AsString() == text);
}

void BenchParse(const char* name, const std::string& request) {
  const std::string expected = Json::Parse(request)->root().ToText();
  Report(name, 2'000, request.size(), [&] {
    Result<Json> json = Json::Parse(request);
    SLUICE_CHECK(json.has_value() && json->root().Find("messages").size() == 40);
  });
  SLUICE_CHECK(Json::Parse(request)->root().ToText() == expected);
}

// 40 messages of about 900 bytes; `tail` ends the last one.
std::string ChatRequest(std::string_view tail) {
  std::string request = R"({"model":"deepseek-flash","stream":true,"messages":[)";
  for (int i = 0; i < 40; ++i) {
    request += fmt::format(R"({}{{"role":"user","content":")", i == 0 ? "" : ",");
    for (int line = 0; line < 18; ++line)
      request += "The quick brown fox, on 2026-07-04, said \\\"hi\\\".\\n";
    if (i == 39) request += tail;
    request += "\"}";
  }
  return request + "]}";
}

}  // namespace
}  // namespace sluice

int main() {
  sluice::BenchString("write, 60 bytes plain",
                      "the quick brown fox jumps over the lazy dog, then once again.");
  sluice::BenchString("write, 60 bytes escapes",
                      "if (a == \"b\") {\n  return \"c\\n\";\n}  // and so on, and on.....");
  sluice::BenchString("write, 60 bytes Chinese", "敏捷的棕色狐狸跳过了那只懒狗然后又来了一次");
  sluice::BenchParse("parse, chat request", sluice::ChatRequest(""));
  sluice::BenchParse("parse, with lone surrogate", sluice::ChatRequest("\\ud800"));
  return 0;
}
