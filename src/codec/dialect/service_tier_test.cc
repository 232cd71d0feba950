#include "codec/dialect/service_tier.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"

namespace sluice::codec {
namespace {

using wire::RequestClass;

std::optional<RequestClass> Asked(const std::string& object, RequestClass highest) {
  const Result<Json> json = Json::Parse(object);
  EXPECT_TRUE(json.has_value());
  return ClassAsked(json->root().Find("service_tier"), highest);
}

TEST(ServiceTier, WhatIsAskedForIsClampedToTheKey) {
  constexpr RequestClass kHigh = RequestClass::kInteractive;
  constexpr RequestClass kMiddle = RequestClass::kDefault;
  constexpr RequestClass kLow = RequestClass::kBulk;
  const std::string priority = R"({"service_tier":"priority"})";
  const std::string flex = R"({"service_tier":"flex"})";
  EXPECT_EQ(Asked(priority, kHigh), kHigh);
  EXPECT_EQ(Asked(priority, kMiddle), kMiddle);
  EXPECT_EQ(Asked(priority, kLow), kLow);
  for (const RequestClass highest : {kHigh, kMiddle, kLow}) {
    EXPECT_EQ(Asked(flex, highest), kLow);
    for (const std::string_view other : {"\"auto\"", "\"default\"", "\"\"", "7", "{}"}) {
      EXPECT_EQ(Asked("{\"service_tier\":" + std::string(other) + "}", highest), highest) << other;
    }
    EXPECT_FALSE(Asked("{}", highest).has_value());
    EXPECT_FALSE(Asked(R"({"service_tier":null})", highest).has_value());
  }
}

TEST(ServiceTier, EachClassHasTheNameThatAsksForIt) {
  EXPECT_EQ(TierName(RequestClass::kInteractive), "priority");
  EXPECT_EQ(TierName(RequestClass::kDefault), "default");
  EXPECT_EQ(TierName(RequestClass::kBulk), "flex");
}

}  // namespace
}  // namespace sluice::codec
