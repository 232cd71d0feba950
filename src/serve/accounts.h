// Accounts: who may use the server and how much. A key names its tenant; each key has its own
// limits.
//
// Key file, one key a line:
//   TENANT KEY [concurrent=N] [tokens-per-minute=N] [class=interactive|default|bulk]
// Empty lines and lines beginning with # are skipped. No key at all: everybody is the anonymous
// tenant. Keys are kept and compared as SHA-256 digests in constant time. Owned by the net thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "wire/request.h"

namespace sluice::serve {

struct KeyLimits {
  int32_t n_concurrent = 0;  // requests in flight; 0: no limit
  int64_t tokens_per_minute =
      0;  // prompt and completion; 0: no limit. Up to one minute's worth may be used at once.
};

// One key's use. Stays while a request holds it, also when a reload removed the key.
struct Account {
  TenantId tenant;
  KeyId key;  // what is stored by one key is not shown to another, of the same tenant neither
  std::string tenant_name;
  KeyLimits limits;
  // Of its requests, unless they ask for a lower one.
  wire::RequestClass request_class = wire::RequestClass::kDefault;
  bool listed = true;        // still in the key file
  int32_t n_running = 0;     // requests in flight
  int32_t n_held = 0;        // connections that serve a request of this key, admitted or not
  double n_tokens_left = 0;  // of the token bucket; negative: in debt
  Time refilled;
};

class Accounts {
 public:
  // Replaces all keys; uses go on where they were. `api_key` empty: none. `key_file`: its content,
  // absent if there is none; without any key in it it is an error, because then everybody would be
  // let in. On error nothing changes.
  Status Load(std::string_view api_key, std::optional<std::string_view> key_file);

  bool open() const { return n_listed_ == 0; }  // no key needed

  // The account of a presented key (the anonymous one if open()); kUnauthenticated otherwise.
  Result<Account*> Authenticate(std::string_view key);

  // Takes a place, or says kRateLimited with the time after which a retry may succeed.
  Status Admit(Account& account, Time now);
  // Gives the place back and charges prompt and completion: the next request pays if this one
  // overdrew.
  void Finish(Account& account, int64_t n_tokens);

 private:
  using Digest = std::array<std::byte, 32>;
  struct KeyLine {
    Digest digest;
    std::string tenant;
    KeyLimits limits;
    wire::RequestClass request_class = wire::RequestClass::kDefault;
  };
  static bool ParseWord(std::string_view word, KeyLine& line);
  static Result<KeyLine> ParseLine(std::string_view line, int n_line);
  TenantId TenantOf(const std::string& name);

  std::map<Digest, std::unique_ptr<Account>> accounts_;
  std::map<std::string, TenantId> tenants_;
  int64_t n_listed_ = 0;
  uint64_t n_keys_ = 0;  // ever listed; the source of KeyId
  Account anonymous_;
};

}  // namespace sluice::serve
