// Result<T>: a value or the Status that says why there is none. Member names are those of
// std::expected, which our compilers lack. Thread-compatible plain value.

#pragma once

#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status.h"

namespace sluice {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by intent
  Result(Status status)
      : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit by intent
    SLUICE_CHECK(!std::get_if<1>(&state_)->ok());
  }

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() {
    SLUICE_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& value() const { return const_cast<Result*>(this)->value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Must hold an error.
  Status& error() {
    SLUICE_CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  const Status& error() const { return const_cast<Result*>(this)->error(); }
  Status status() const { return has_value() ? Status() : error(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace sluice

// SLUICE_TRY(expr): returns the Status of a Status expression unless it is OK.
// SLUICE_TRY(T name, expr): declares name with the value of a Result expression, or returns its
// error.
#define SLUICE_TRY_CONCAT_(a, b) a##b
#define SLUICE_TRY_NAME_(line) SLUICE_TRY_CONCAT_(try_result_, line)
#define SLUICE_TRY1_(expr)                   \
  do {                                       \
    ::sluice::Status try_status = (expr);    \
    if (!try_status.ok()) return try_status; \
  } while (false)
#define SLUICE_TRY2_(decl, expr)                                                         \
  auto SLUICE_TRY_NAME_(__LINE__) = (expr);                                              \
  if (!SLUICE_TRY_NAME_(__LINE__)) return std::move(SLUICE_TRY_NAME_(__LINE__).error()); \
  decl = std::move(*SLUICE_TRY_NAME_(__LINE__))
#define SLUICE_TRY_PICK_(a, b, name, ...) name
#define SLUICE_TRY(...) SLUICE_TRY_PICK_(__VA_ARGS__, SLUICE_TRY2_, SLUICE_TRY1_)(__VA_ARGS__)
