// Requests for the tests of this module. Thread-compatible.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "wire/request.h"

namespace sluice::cluster {

constexpr Time At(int64_t millis) { return Time{millis * 1'000'000}; }

struct AskParams {
  uint64_t id = 1;
  uint64_t key = 0;
  wire::RequestClass request_class = wire::RequestClass::kDefault;
  size_t n_prompt = 100;
  int32_t n_max = 1;
  Time deadline = Time::Max();
};

inline wire::GenerateRequest Ask(const AskParams& params) {
  wire::GenerateRequest request;
  request.id = RequestId(params.id);
  request.key = KeyId(params.key);
  request.request_class = params.request_class;
  request.deadline = params.deadline;
  request.prompt = std::make_shared<const std::vector<TokenId>>(params.n_prompt, TokenId(1));
  request.n_max = params.n_max;
  return request;
}

}  // namespace sluice::cluster
