#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace sluice {

std::array<std::byte, 32> Sha256(ConstBytes bytes) {
  std::array<std::byte, 32> digest;
  unsigned int n_bytes = 0;
  int ok = EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                      &n_bytes, EVP_sha256(), nullptr);
  SLUICE_CHECK(ok == 1 && n_bytes == digest.size());
  return digest;
}

std::array<std::byte, 32> HmacSha256(ConstBytes key, ConstBytes message) {
  std::array<std::byte, 32> digest;
  unsigned int n_bytes = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &n_bytes);
  SLUICE_CHECK(done != nullptr && n_bytes == digest.size());
  return digest;
}

bool ConstantTimeEqual(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sluice
