#include "serve/accounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/metrics.h"
#include "base/sha256.h"

namespace sluice::serve {
namespace {

std::string_view NextWord(std::string_view& rest) {
  size_t begin = rest.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) {
    rest = {};
    return {};
  }
  size_t end = std::min(rest.find_first_of(" \t\r", begin), rest.size());
  std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

// A positive number behind "name=", or -1.
int64_t ValueOf(std::string_view word, std::string_view name) {
  if (!word.starts_with(name)) return -1;
  word.remove_prefix(name.size());
  int64_t value = -1;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? value : -1;
}

bool IsTenantName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kMaxTenantNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

std::array<std::byte, 32> DigestOf(std::string_view key) {
  return Sha256(std::as_bytes(std::span(key)));
}

}  // namespace

Result<Accounts::KeyLine> Accounts::ParseLine(std::string_view line, int n_line) {
  std::string_view tenant = NextWord(line);
  std::string_view key = NextWord(line);
  if (!IsTenantName(tenant)) {
    return Status::Invalid(
        fmt::format("key file line {}: the tenant must be 1 to {} of A-Z a-z 0-9 - _ .", n_line,
                    limits::kMaxTenantNameBytes));
  }
  if (key.empty() || key.size() > limits::kMaxApiKeyBytes) {
    return Status::Invalid(
        fmt::format("key file line {}: a key of 1 to {} bytes must follow the tenant", n_line,
                    limits::kMaxApiKeyBytes));
  }
  KeyLine parsed{.digest = DigestOf(key), .tenant = std::string(tenant), .limits = {}};
  for (std::string_view word = NextWord(line); !word.empty(); word = NextWord(line)) {
    if (ParseWord(word, parsed)) continue;
    // The word is not shown: a mistyped line may hold a key.
    return Status::Invalid(
        fmt::format("key file line {}: behind the key only concurrent=N and tokens-per-minute=N "
                    "with N >= 1 and class=interactive, default or bulk are allowed",
                    n_line));
  }
  return parsed;
}

bool Accounts::ParseWord(std::string_view word, KeyLine& line) {
  constexpr std::string_view kClass = "class=";
  if (word.starts_with(kClass)) {
    const auto& names = metrics::LabelTraits<metrics::Class>::kNames;
    const auto* name = std::ranges::find(names, word.substr(kClass.size()));
    if (name == std::end(names)) return false;
    line.request_class = static_cast<wire::RequestClass>(name - std::begin(names));
    return true;
  }
  const int64_t concurrent = ValueOf(word, "concurrent=");
  const int64_t tokens = ValueOf(word, "tokens-per-minute=");
  if (concurrent > 0 && concurrent <= INT32_MAX) {
    line.limits.n_concurrent = static_cast<int32_t>(concurrent);
  } else if (tokens > 0) {
    line.limits.tokens_per_minute = tokens;
  } else {
    return false;
  }
  return true;
}

TenantId Accounts::TenantOf(const std::string& name) {
  auto [it, is_new] =
      tenants_.try_emplace(name, TenantId(static_cast<uint32_t>(tenants_.size() + 1)));
  return it->second;
}

Status Accounts::Load(std::string_view api_key, std::optional<std::string_view> key_file) {
  std::vector<KeyLine> lines;
  if (!api_key.empty())
    lines.push_back({.digest = DigestOf(api_key), .tenant = "default", .limits = {}});
  const size_t n_before = lines.size();
  std::string_view rest = key_file.value_or("");
  int n_line = 0;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++n_line;
    size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (static_cast<int64_t>(lines.size()) >= limits::kMaxKeys) {
      return Status::Invalid(fmt::format("key file: more than {} keys", limits::kMaxKeys));
    }
    SLUICE_TRY(KeyLine parsed, ParseLine(line, n_line));
    lines.push_back(std::move(parsed));
  }
  if (key_file && lines.size() == n_before) {
    return Status::Invalid(
        "key file: there is no key in it, and without keys everybody may come in");
  }
  std::set<Digest> seen;
  for (const KeyLine& line : lines) {
    if (!seen.insert(line.digest).second) {
      return Status::Invalid(
          fmt::format("key file: a key of tenant {} appears twice", line.tenant));
    }
  }

  for (auto& [digest, account] : accounts_) account->listed = false;
  for (KeyLine& line : lines) {
    std::unique_ptr<Account>& account = accounts_[line.digest];
    if (!account) {
      account = std::make_unique<Account>();
      account->key = KeyId(++n_keys_);
      account->n_tokens_left = static_cast<double>(line.limits.tokens_per_minute);
    }
    account->tenant = TenantOf(line.tenant);
    account->tenant_name = std::move(line.tenant);
    account->limits = line.limits;
    account->request_class = line.request_class;
    account->listed = true;
  }
  std::erase_if(accounts_, [](const auto& item) {
    return !item.second->listed && item.second->n_running == 0 && item.second->n_held == 0;
  });
  n_listed_ = static_cast<int64_t>(lines.size());
  return Status::Ok();
}

Result<Account*> Accounts::Authenticate(std::string_view key) {
  if (open()) return &anonymous_;
  Digest digest = DigestOf(key);
  Account* found = nullptr;
  // No early end: the time tells nothing about how close a guess was, not even in digests.
  for (auto& [listed_digest, account] : accounts_) {
    if (ConstantTimeEqual(listed_digest, digest) && account->listed) found = account.get();
  }
  if (found == nullptr || key.empty()) {
    return Status(ErrorCode::kUnauthenticated,
                  key.empty() ? "no API key given: send it as \"Authorization: Bearer KEY\""
                              : "the API key is not known");
  }
  return found;
}

Status Accounts::Admit(Account& account, Time now) {
  const KeyLimits& limits = account.limits;
  if (limits.n_concurrent > 0 && account.n_running >= limits.n_concurrent) {
    Status status(
        ErrorCode::kRateLimited,
        fmt::format("this key already has {} requests running, its limit", limits.n_concurrent));
    status.set_retry_after(Duration::Seconds(1));
    return status;
  }
  if (limits.tokens_per_minute > 0) {
    double per_second = static_cast<double>(limits.tokens_per_minute) / 60.0;
    double refill = per_second * (now - account.refilled).seconds();
    account.n_tokens_left =
        std::min(account.n_tokens_left + refill, static_cast<double>(limits.tokens_per_minute));
    account.refilled = now;
    if (account.n_tokens_left <= 0) {
      Status status(
          ErrorCode::kRateLimited,
          fmt::format("this key has used its {} tokens per minute", limits.tokens_per_minute));
      double wait_s = (1.0 - account.n_tokens_left) / per_second;
      status.set_retry_after(Duration::Millis(static_cast<int64_t>(wait_s * 1e3) + 1));
      return status;
    }
  }
  ++account.n_running;
  return Status::Ok();
}

void Accounts::Finish(Account& account, int64_t n_tokens) {
  SLUICE_CHECK(account.n_running > 0);
  --account.n_running;
  if (account.limits.tokens_per_minute > 0) account.n_tokens_left -= static_cast<double>(n_tokens);
}

}  // namespace sluice::serve
