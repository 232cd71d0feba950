// SLUICE_CHECK: an invariant of ours, always on. A failure is a bug: it prints where and ends the
// process, and the router retries elsewhere. Input from outside is never checked with it.

#pragma once

namespace sluice {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace sluice

#define SLUICE_CHECK(condition)                                                              \
  (__builtin_expect(!(condition), 0) ? ::sluice::CheckFailed(#condition, __FILE__, __LINE__) \
                                     : (void)0)
