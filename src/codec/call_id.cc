#include "codec/call_id.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "base/rng.h"

namespace sluice::codec {
namespace {

constexpr size_t kNumRandom = 20;
constexpr size_t kPerDraw = 10;  // 62^10 < 2^64
constexpr std::string_view kAlphabet =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

int32_t Checksum(std::string_view id) {
  std::string plain;
  for (const char c : id) {
    if (c != '_') plain += c;
  }
  return static_cast<int32_t>(XXH3_64bits(plain.data(), plain.size()) % 10'000);
}

}  // namespace

std::string MakeCallId(const CallIdParams& params) {
  std::string id = fmt::format("call_{:02}_{}", params.call, params.without_thought ? "ET_" : "");
  uint64_t bits = 0;
  for (size_t i = 0; i < kNumRandom; ++i) {
    if (i % kPerDraw == 0) {
      bits = RandomBits({.seed = params.entropy,
                         .position = static_cast<uint64_t>(params.call) << 8 | i,
                         .stream = static_cast<uint64_t>(params.choice)});
    }
    id += kAlphabet[bits % kAlphabet.size()];
    bits /= kAlphabet.size();
  }
  fmt::format_to(std::back_inserter(id), "{:04}", Checksum(id));
  return id;
}

bool HasEmptyThinkingMark(std::string_view call_id) {
  return (call_id.size() >= 11 && call_id.substr(8, 3) == "ET_") ||
         (call_id.size() >= 8 && call_id.substr(6, 2) == "ET");
}

bool HasEmptyThinkingMark(std::span<const ToolCall> calls) {
  return std::ranges::any_of(calls,
                             [](const ToolCall& call) { return HasEmptyThinkingMark(call.id); });
}

}  // namespace sluice::codec
