// The two coroutine types of serve and the signal they wait on.
//
//   Detached     starts at once, runs on its own, destroys itself at the end: one per connection.
//   Async<T>     starts when awaited, resumes its parent at the end: a step of a connection.
//   Signal       the one thing a connection waits for; whoever has news raises it.
//
// Why not asio::awaitable: a connection waits for sockets, token events, prepared requests and time
// at once, and all of them end in one Raise(); an idle connection must also cost far less than the
// 8 KiB it may (ARCHITECTURE.md §7). Owned by the net thread. One co_await per statement, its
// arguments named before it (g++ 12).

#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "base/check.h"

namespace sluice::serve {

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { SLUICE_CHECK(!"an exception reached a connection"); }
  };
};

// A child that ends without waiting returns to its parent like a function. Symmetric transfer would
// do the same only where the compiler makes it a tail call; where not, ten thousand pipelined
// requests are ten thousand stack frames.
template <typename T>
class [[nodiscard]] Async {
 public:
  struct promise_type {
    std::optional<T> value;
    std::coroutine_handle<> parent;
    bool parent_waits = false;  // it was suspended and must be resumed at the end

    Async get_return_object() {
      return Async(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct ToParent {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        if (self.promise().parent_waits) return self.promise().parent;
        return std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    ToParent final_suspend() noexcept { return {}; }
    void return_value(T v) { value.emplace(std::move(v)); }
    void unhandled_exception() { SLUICE_CHECK(!"an exception reached a connection"); }
  };

  Async(Async&& other) noexcept : self_(std::exchange(other.self_, nullptr)) {}
  Async(const Async&) = delete;
  ~Async() {
    if (self_) self_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> parent) {
    self_.promise().parent = parent;
    self_.resume();
    if (self_.done()) return false;
    self_.promise().parent_waits = true;
    return true;
  }
  T await_resume() { return std::move(*self_.promise().value); }

 private:
  explicit Async(std::coroutine_handle<promise_type> self) : self_(self) {}
  std::coroutine_handle<promise_type> self_;
};

// Level-triggered and coalescing: a Raise() before the wait makes the wait return at once. Whoever
// is woken looks at everything it waits for; there is no message in a signal. Not copyable: g++ 12
// copies an awaitable that a function call returned by reference, and then nobody wakes the copy.
class Signal {
 public:
  Signal() = default;
  Signal(const Signal&) = delete;

  void Raise() {
    raised_ = true;
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }

  bool await_ready() const noexcept { return raised_; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept {
    SLUICE_CHECK(!waiter_);
    waiter_ = waiter;
  }
  void await_resume() noexcept { raised_ = false; }

 private:
  std::coroutine_handle<> waiter_;
  bool raised_ = false;
};

}  // namespace sluice::serve
