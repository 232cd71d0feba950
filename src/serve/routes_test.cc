#include "serve/routes.h"

#include <gtest/gtest.h>

namespace sluice::serve {
namespace {

TEST(Routes, AdminPathsExistOnTheAdminPortOnly) {
  int n_admin = 0;
  for (const Route& route : Routes()) {
    if (!route.path.starts_with("/admin/")) continue;
    ++n_admin;
    EXPECT_NE(FindRoute(route.method, route.path, Port::kAdmin).route, nullptr) << route.path;
    EXPECT_TRUE(FindRoute(route.method, route.path, Port::kPublic).allow.empty()) << route.path;
  }
  EXPECT_GT(n_admin, 0);
}

TEST(Routes, OtherSpellingsOfAnAdminPathDoNotExist) {
  for (std::string_view path :
       {"//admin/drain", "/admin//drain", "/%61dmin/drain", "/./admin/drain", "/x/../admin/drain",
        "/Admin/drain", "/admin/drain/", "/admin/drain;x", "admin/drain"}) {
    EXPECT_TRUE(FindRoute("POST", path, Port::kPublic).allow.empty()) << path;
    EXPECT_TRUE(FindRoute("POST", path, Port::kAdmin).allow.empty()) << path;
  }
}

TEST(Routes, TokensComeFromThePublicPortOnly) {
  for (const codec::Dialect& dialect : codec::Dialects()) {
    for (const char* path : dialect.paths) {
      EXPECT_EQ(FindRoute("POST", path, Port::kPublic).dialect, &dialect);
      EXPECT_EQ(FindRoute("GET", path, Port::kPublic).route, nullptr);
      EXPECT_EQ(FindRoute("GET", path, Port::kPublic).allow, "POST, OPTIONS");
      EXPECT_TRUE(FindRoute("POST", path, Port::kAdmin).allow.empty());
    }
  }
}

TEST(Routes, InquiriesNeedAKeyAndArePostsOfThePublicPort) {
  for (const codec::Inquiry& inquiry : codec::Inquiries()) {
    for (const char* path : inquiry.paths) {
      RouteMatch match = FindRoute("POST", path, Port::kPublic);
      ASSERT_NE(match.route, nullptr) << path;
      EXPECT_EQ(match.route->handler, Handler::kInquiry) << path;
      EXPECT_EQ(match.route->access, Access::kKey) << path;
      EXPECT_EQ(match.inquiry, &inquiry) << path;
      EXPECT_EQ(match.dialect, &codec::DialectOf(inquiry.api)) << path;
      EXPECT_EQ(FindRoute("GET", path, Port::kPublic).allow, "POST, OPTIONS") << path;
      EXPECT_TRUE(FindRoute("POST", path, Port::kAdmin).allow.empty()) << path;
    }
  }
  EXPECT_TRUE(FindRoute("POST", "/v1/chat/completions/count_tokens", Port::kPublic).allow.empty());
}

TEST(Routes, EveryApiPathHasARenderPath) {
  for (const codec::Dialect& dialect : codec::Dialects()) {
    for (std::string path : dialect.paths) {
      const RouteMatch match = FindRoute("POST", path += "/render", Port::kPublic);
      ASSERT_NE(match.inquiry, nullptr) << path;
      EXPECT_EQ(match.inquiry->kind, codec::Inquiry::Kind::kRender) << path;
      EXPECT_EQ(match.dialect, &dialect) << path;
    }
  }
}

TEST(Routes, HeadIsAnsweredLikeGetAndModelsCarryTheirName) {
  EXPECT_EQ(FindRoute("HEAD", "/", Port::kPublic).route->handler, Handler::kRoot);
  RouteMatch match = FindRoute("GET", "/v1/models/deepseek-flash", Port::kPublic);
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.rest, "deepseek-flash");
  EXPECT_EQ(FindRoute("GET", "/anthropic/v1/models/x", Port::kPublic).rest, "x");
  EXPECT_EQ(FindRoute("DELETE", "/v1/models", Port::kPublic).route, nullptr);
  EXPECT_TRUE(FindRoute("GET", "/v1/models/", Port::kPublic).allow.empty());
}

TEST(Routes, StoredResponsesHaveTheirIdInsideThePath) {
  for (std::string root : {"/v1/responses", "/responses"}) {
    auto handler = [&](std::string_view method, const std::string& rest) {
      const std::string path = root + rest;
      RouteMatch match = FindRoute(method, path, Port::kPublic);
      EXPECT_NE(match.route, nullptr) << method << rest;
      EXPECT_EQ(match.rest, "resp_1") << method << rest;
      return match.route == nullptr ? Handler::kRoot : match.route->handler;
    };
    EXPECT_EQ(handler("GET", "/resp_1"), Handler::kResponse);
    EXPECT_EQ(handler("HEAD", "/resp_1"), Handler::kResponse);
    EXPECT_EQ(handler("DELETE", "/resp_1"), Handler::kDeleteResponse);
    EXPECT_EQ(handler("POST", "/resp_1/cancel"), Handler::kCancelResponse);
    EXPECT_EQ(handler("GET", "/resp_1/input_items"), Handler::kResponseInput);
    EXPECT_EQ(FindRoute("PATCH", root + "/resp_1", Port::kPublic).allow,
              "GET, HEAD, DELETE, OPTIONS");
    EXPECT_EQ(FindRoute("GET", root + "/resp_1/cancel", Port::kPublic).allow, "POST, OPTIONS");
    for (const char* rest :
         {"/", "//", "/a/b", "//cancel", "/a/b/cancel", "/a/input_items/", "/a/", "/a/cancel/b"}) {
      EXPECT_TRUE(FindRoute("GET", root + rest, Port::kPublic).allow.empty()) << rest;
    }
    EXPECT_TRUE(FindRoute("GET", root + "/resp_1", Port::kAdmin).allow.empty());
  }
}

// Probes that tell some agents which other server they talk to must not be answered (spec
// clients.md §2.6).
TEST(Routes, ProbesForOtherServersFindNothing) {
  for (std::string_view path :
       {"/api/v1/models", "/api/tags", "/v1/props", "/props", "/api/show", "/api/hello"}) {
    EXPECT_TRUE(FindRoute("GET", path, Port::kPublic).allow.empty()) << path;
  }
}

}  // namespace
}  // namespace sluice::serve
