// Hop 2 for an agent's request: 12 tools, 20 rounds of calls and results, some 30,000 tokens with
// the released vocabulary: codec_prepare_bench TOKENIZER_JSON, on one core.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "codec/dialect.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/format/deepseek_v41/render.h"
#include "codec/turn_memory.h"

namespace {

using sluice::JsonWriter;
using sluice::codec::deepseek_v41::Format;

constexpr int kRounds = 11;

// Source-like text of some `n_lines` lines, no two the same.
std::string Lines(int n_lines, int seed) {
  std::string text;
  for (int i = 0; i < n_lines; ++i) {
    text += "    if (value_" + std::to_string(seed * 7 + i) + " < limit) { return Compute(state, " +
            std::to_string(i * 13 % 97) + "); }  // keeps the order of the queue\n";
  }
  return text;
}

void AddTool(JsonWriter& w, int i) {
  w.Object().Key("type").String("function").Key("function").Object();
  w.Key("name").String("tool_" + std::to_string(i));
  w.Key("description").String("Reads or writes files of the project. " + Lines(3, i));
  w.Key("parameters")
      .Raw(R"({"type":"object","properties":{"path":{"type":"string","description":"Where"},)"
           R"("limit":{"type":"integer","minimum":1,"maximum":2000}},"required":["path"]})");
  w.EndObject().EndObject();
}

void AddRound(JsonWriter& w, int i) {
  const std::string id = "call_" + std::to_string(i);
  w.Object().Key("role").String("assistant").Key("content").String("Looking at the next file.");
  w.Key("reasoning_content").String(Lines(6, i)).Key("tool_calls").Array();
  w.Object().Key("id").String(id).Key("type").String("function").Key("function").Object();
  w.Key("name").String("tool_1").Key("arguments");
  w.String("{\"path\": \"src/file_" + std::to_string(i) + ".cc\", \"limit\": 200}");
  w.EndObject().EndObject().EndArray().EndObject();
  w.Object().Key("role").String("tool").Key("tool_call_id").String(id);
  w.Key("content").String(Lines(46, i)).EndObject();
}

std::string AgentBody() {
  std::string body;
  JsonWriter w(body);
  w.Object().Key("model").String("deepseek-flash").Key("tools").Array();
  for (int i = 0; i < 12; ++i) AddTool(w, i);
  w.EndArray().Key("messages").Array();
  w.Object().Key("role").String("user").Key("content").String("Fix the test.").EndObject();
  for (int i = 0; i < 20; ++i) AddRound(w, i);
  w.EndArray().EndObject();
  return body;
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

template <typename Work>
double MedianMs(const Work& work) {
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    rounds.push_back(spent.count());
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: codec_prepare_bench TOKENIZER_JSON\n", stderr);
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  auto vocabulary =
      sluice::token::Vocabulary::Parse(std::string(std::istreambuf_iterator<char>(in), {}));
  Require(vocabulary.has_value(), "no tokenizer.json");
  const auto format = Format::Make(std::move(*vocabulary));
  Require(format.has_value(), "no vocabulary of this format");
  const sluice::codec::ModelCard card{.name = "deepseek-flash"};
  const sluice::codec::PrepareContext context{.model = card, .format = **format};
  const sluice::codec::Dialect& chat = sluice::codec::Dialects()[0];
  const std::string body = AgentBody();

  auto request = chat.decode(body, context);
  Require(request.has_value(), "refused");
  const auto prompt = sluice::codec::deepseek_v41::Render(request->conversation, {});
  const auto ids = sluice::codec::deepseek_v41::Encode(prompt, **format).ids;
  std::string text;
  for (const sluice::TokenId id : ids) text += (*format)->text(id);
  Require(text == prompt.text, "the tokens are not the text");

  std::printf("%zu bytes, %zu tokens\n", body.size(), ids.size());
  std::printf("decode    %7.2f ms\n", MedianMs([&] { (void)chat.decode(body, context); }));
  std::printf("render    %7.2f ms\n", MedianMs([&] {
                (void)sluice::codec::deepseek_v41::Render(request->conversation, {});
              }));
  std::printf("tokenise  %7.2f ms\n", MedianMs([&] { (void)Encode(prompt, **format); }));
  std::printf("prepare   %7.2f ms\n",
              MedianMs([&] { (void)sluice::codec::Prepare(chat, body, context); }));
  // Twenty turns to look up, of which none is found.
  sluice::codec::TurnMemory turns(1 << 20);
  sluice::codec::PrepareContext with_turns = context;
  with_turns.turns = &turns;
  std::printf("  looking up turns %7.2f ms\n",
              MedianMs([&] { (void)sluice::codec::Prepare(chat, body, with_turns); }));
  return 0;
}
