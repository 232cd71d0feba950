// Bell: how one thread tells another that there is work. Plain data; Ring is thread-safe, never
// blocks, and rings that come before the sleeper wakes are one.

#pragma once

namespace sluice {

struct Bell {
  void (*ring)(void* context) = nullptr;  // null: nobody listens
  void* context = nullptr;

  void Ring() const {
    if (ring != nullptr) ring(context);
  }
};

}  // namespace sluice
