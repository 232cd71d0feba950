#include "serve/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sluice::serve {
namespace {

std::string HeaderOf(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return {};
}

TEST(Page, EveryFileHasATypeThatABrowserTakesAndATagOfItsOwn) {
  std::set<std::string_view> tags;
  for (const PageFile& file : PageFiles()) {
    EXPECT_FALSE(file.bytes.empty()) << file.path;
    EXPECT_NE(file.content_type, "") << file.path;
    EXPECT_TRUE(tags.insert(file.etag).second) << file.path;
    EXPECT_TRUE(file.etag.starts_with('"') && file.etag.ends_with('"')) << file.etag;
  }
  EXPECT_TRUE(
      std::ranges::any_of(PageFiles(), [](const PageFile& f) { return f.path == kFirstPage; }));
}

TEST(Page, ABrowserThatHasTheFileIsToldSo) {
  const Response first = PageResponse(kFirstPage, {}, "req_1");
  ASSERT_EQ(first.status, 200);
  RequestHead again;
  again.if_none_match = "\"other\", W/" + HeaderOf(first, "ETag");
  const Response second = PageResponse(kFirstPage, again, "req_1");
  EXPECT_EQ(second.status, 304);
  EXPECT_EQ(second.body, "");
  EXPECT_EQ(HeaderOf(second, "ETag"), HeaderOf(first, "ETag"));
  again.if_none_match = "\"other\"";
  EXPECT_EQ(PageResponse(kFirstPage, again, "req_1").status, 200);
}

TEST(Page, OnlyItsOwnFilesAreThere) {
  for (std::string_view path : {"", "/", "nothing.js", "../index.html", "index.html/", "INDEX.HTML",
                                "vendor", "./index.html"})
    EXPECT_EQ(PageResponse(path, {}, "req_1").status, 404) << path;
}

TEST(Page, NothingMayRunButItsOwnScripts) {
  const std::string policy =
      HeaderOf(PageResponse(kFirstPage, {}, "req_1"), "Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find('*'), std::string::npos);
}

}  // namespace
}  // namespace sluice::serve
