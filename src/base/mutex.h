// Mutex, MutexLock and CondVar: the standard ones with the annotations of clang's thread-safety
// analysis, so that "guarded by" is checked and not only promised. Only the files on tidy's list
// may hold one (ARCHITECTURE.md §7).
//
// Thread-safe.

#pragma once

#include <condition_variable>
#include <mutex>

#include "base/time.h"

#if defined(__clang__)
#define SLUICE_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define SLUICE_THREAD_ANNOTATION_(x)
#endif
#define SLUICE_CAPABILITY(name) SLUICE_THREAD_ANNOTATION_(capability(name))
#define SLUICE_SCOPED_CAPABILITY SLUICE_THREAD_ANNOTATION_(scoped_lockable)
#define SLUICE_GUARDED_BY(mutex) SLUICE_THREAD_ANNOTATION_(guarded_by(mutex))
#define SLUICE_REQUIRES(...) SLUICE_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define SLUICE_ACQUIRE(...) SLUICE_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define SLUICE_RELEASE(...) SLUICE_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))

namespace sluice {

class SLUICE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;

  void Lock() SLUICE_ACQUIRE() { mu_.lock(); }
  void Unlock() SLUICE_RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class SLUICE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) SLUICE_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() SLUICE_RELEASE() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

class CondVar {
 public:
  // May return without a notification: the caller loops over its condition.
  void Wait(Mutex& mu) SLUICE_REQUIRES(mu) {
    std::unique_lock<std::mutex> held(mu.mu_, std::adopt_lock);
    cv_.wait(held);
    held.release();
  }

  // As Wait; false once `timeout` has passed.
  bool WaitFor(Mutex& mu, Duration timeout) SLUICE_REQUIRES(mu) {
    std::unique_lock<std::mutex> held(mu.mu_, std::adopt_lock);
    bool notified =
        cv_.wait_for(held, std::chrono::nanoseconds(timeout.ns)) == std::cv_status::no_timeout;
    held.release();
    return notified;
  }

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace sluice
