#include "serve/accounts.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::serve {
namespace {

Time At(int64_t s) { return Time{} + Duration::Seconds(s); }

TEST(Accounts, WithoutKeysEverybodyIsTheAnonymousTenant) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("", std::nullopt).ok());
  EXPECT_TRUE(accounts.open());
  EXPECT_EQ((*accounts.Authenticate("anything"))->tenant, TenantId(0));
}

// Caught while it is rewritten, a key file is empty for a moment: that must not open the server.
TEST(Accounts, AKeyFileWithoutKeysIsRefusedAndTheOldKeysStay) {
  for (std::string_view file : {"", "\n", "# alice key-a\n"}) {
    Accounts accounts;
    ASSERT_TRUE(accounts.Load("", "alice key-a").ok());
    EXPECT_FALSE(accounts.Load("", file).ok());
    EXPECT_FALSE(accounts.open());
    EXPECT_TRUE(accounts.Authenticate("key-a").has_value());
  }
}

TEST(Accounts, AKeyNamesItsTenantAndOthersAreRefused) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("main-key", "alice key-a concurrent=2\nbob key-b\r\nalice key-c").ok());
  EXPECT_EQ((*accounts.Authenticate("main-key"))->tenant_name, "default");
  EXPECT_EQ((*accounts.Authenticate("key-a"))->tenant_name, "alice");
  EXPECT_EQ((*accounts.Authenticate("key-b"))->tenant_name, "bob");
  EXPECT_EQ((*accounts.Authenticate("key-a"))->tenant, (*accounts.Authenticate("key-c"))->tenant);
  for (std::string_view wrong : {"", "key", "key-aa", "KEY-A", "key-a ", "alice"}) {
    Result<Account*> account = accounts.Authenticate(wrong);
    ASSERT_FALSE(account) << wrong;
    EXPECT_EQ(account.error().code(), ErrorCode::kUnauthenticated);
  }
}

// What one key stores is found by its KeyId.
TEST(Accounts, EachKeyIsOneKeyAlsoWithinATenantAndAcrossAReload) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("", "alice key-a\nalice key-b").ok());
  const KeyId a = (*accounts.Authenticate("key-a"))->key;
  const KeyId b = (*accounts.Authenticate("key-b"))->key;
  EXPECT_NE(a, b);
  EXPECT_NE(a, KeyId(0));  // nobody's, where no key is needed
  ASSERT_TRUE(accounts.Load("", "alice key-c\nalice key-a concurrent=2").ok());
  EXPECT_EQ((*accounts.Authenticate("key-a"))->key, a);
  const KeyId c = (*accounts.Authenticate("key-c"))->key;
  EXPECT_NE(c, a);
  EXPECT_NE(c, b);
}

TEST(Accounts, AKeyHasAClassAndAReloadMayChangeIt) {
  Accounts accounts;
  ASSERT_TRUE(
      accounts.Load("main", "a key-a class=interactive concurrent=2\nb key-b class=bulk").ok());
  EXPECT_EQ((*accounts.Authenticate("key-a"))->request_class, wire::RequestClass::kInteractive);
  EXPECT_EQ((*accounts.Authenticate("key-a"))->limits.n_concurrent, 2);
  EXPECT_EQ((*accounts.Authenticate("key-b"))->request_class, wire::RequestClass::kBulk);
  EXPECT_EQ((*accounts.Authenticate("main"))->request_class, wire::RequestClass::kDefault);
  ASSERT_TRUE(accounts.Load("", "a key-a class=default").ok());
  EXPECT_EQ((*accounts.Authenticate("key-a"))->request_class, wire::RequestClass::kDefault);
}

TEST(Accounts, BadLinesNameTheLineAndNeverTheKey) {
  for (std::string_view file :
       {"alice", "al/ice secret-key", "alice secret-key concurrent=0", "alice secret-key x=1",
        "alice secret-key concurrent=99999999999", "alice secret-key tokens-per-minute=-1",
        "alice secret-key class=urgent", "alice secret-key class="}) {
    Accounts accounts;
    Status status = accounts.Load("", "# head\n" + std::string(file));
    ASSERT_FALSE(status.ok()) << file;
    EXPECT_NE(status.message().find("line 2"), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("secret-key"), std::string::npos);
  }
  Accounts accounts;
  EXPECT_FALSE(accounts.Load("k", "alice k").ok()) << "the same key twice";
}

TEST(Accounts, ConcurrencyIsPerKey) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("", "alice a concurrent=2\nalice b").ok());
  Account& a = **accounts.Authenticate("a");
  EXPECT_TRUE(accounts.Admit(a, At(0)).ok());
  EXPECT_TRUE(accounts.Admit(a, At(0)).ok());
  Status third = accounts.Admit(a, At(0));
  EXPECT_EQ(third.code(), ErrorCode::kRateLimited);
  EXPECT_GT(third.retry_after().ns, 0);
  EXPECT_TRUE(accounts.Admit(**accounts.Authenticate("b"), At(0)).ok());
  accounts.Finish(a, 10);
  EXPECT_TRUE(accounts.Admit(a, At(0)).ok());
}

TEST(Accounts, TokenRateTellsWhenTheDebtIsPaid) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("", "alice a tokens-per-minute=60").ok());
  Account& a = **accounts.Authenticate("a");
  ASSERT_TRUE(accounts.Admit(a, At(0)).ok());
  accounts.Finish(a, 90);  // 30 tokens of debt at one a second
  Status status = accounts.Admit(a, At(10));
  ASSERT_EQ(status.code(), ErrorCode::kRateLimited);
  Duration wait = status.retry_after();
  EXPECT_NEAR(wait.seconds(), 21.0, 0.1);
  EXPECT_FALSE(accounts.Admit(a, At(8) + wait).ok());
  EXPECT_TRUE(accounts.Admit(a, At(10) + wait).ok());
  // An hour of rest is worth one minute of tokens, not sixty.
  accounts.Finish(a, 0);
  ASSERT_TRUE(accounts.Admit(a, At(4000)).ok());
  accounts.Finish(a, 61);
  EXPECT_FALSE(accounts.Admit(a, At(4000)).ok());
}

TEST(Accounts, ReloadKeepsUseAndDropsRemovedKeys) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("", "alice a concurrent=1\nbob b").ok());
  Account& a = **accounts.Authenticate("a");
  TenantId alice = a.tenant;
  ASSERT_TRUE(accounts.Admit(a, At(0)).ok());
  EXPECT_FALSE(accounts.Load("", "alice").ok());
  EXPECT_TRUE(accounts.Authenticate("b").has_value()) << "a bad file changes nothing";
  ASSERT_TRUE(accounts.Load("", "alice a concurrent=1").ok());
  EXPECT_EQ((*accounts.Authenticate("a"))->tenant, alice);
  EXPECT_FALSE(accounts.Admit(a, At(0)).ok()) << "its request still runs";
  EXPECT_FALSE(accounts.Authenticate("b").has_value());
  // Removed while a request runs: refused at once, and the running one still ends safely.
  ASSERT_TRUE(accounts.Load("", "carol c").ok());
  EXPECT_FALSE(accounts.Authenticate("a").has_value());
  accounts.Finish(a, 1);
}

TEST(Accounts, AnAccountStaysWhileAConnectionHoldsIt) {
  Accounts accounts;
  ASSERT_TRUE(accounts.Load("", "alice a").ok());
  Account& a = **accounts.Authenticate("a");
  ++a.n_held;
  ASSERT_TRUE(accounts.Load("", "bob b").ok());
  EXPECT_EQ(a.tenant_name, "alice");
  EXPECT_FALSE(a.listed);
  --a.n_held;
  ASSERT_TRUE(accounts.Load("", "carol c").ok());
}

}  // namespace
}  // namespace sluice::serve
