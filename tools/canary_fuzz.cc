// A fuzzer that must fail: it holds a planted heap overflow behind four bytes. If the smoke run
// does not find it, the fuzzing machinery (coverage feedback, sanitizer, exit code) is broken and
// every green fuzzer means nothing.

#include <cstddef>
#include <cstdint>
#include <memory>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  if (data[0] == 'b' && data[1] == 'i' && data[2] == 'r' && data[3] == 'd') {
    auto cage = std::make_unique<uint8_t[]>(size);
    volatile uint8_t* bars = cage.get();
    bars[size] = 1;  // one past the end
  }
  return 0;
}
