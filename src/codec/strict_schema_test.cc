#include "codec/strict_schema.h"

#include <gtest/gtest.h>

namespace sluice::codec {
namespace {

std::string Normalized(std::string_view schema) {
  const Result<Json> json = Json::Parse(schema);
  EXPECT_TRUE(json);
  return NormalizeStrictSchema(json->root());
}

// Expected texts: the published codec package 0.2.0.
TEST(StrictSchema, EachTypeKeepsItsOwnKeywords) {
  EXPECT_EQ(Normalized(R"({"minLength":1,"enum":["a"],"const":"c","format":"email","pattern":"^a",)"
                       R"("description":"x","type":"string"})"),
            R"({"type":"string","description":"x","pattern":"^a","format":"email","enum":["a"]})");
  EXPECT_EQ(Normalized(R"({"multipleOf":1,"maximum":9,"minimum":1,"default":2,"const":3,)"
                       R"("exclusiveMinimum":0,"enum":[1],"type":"integer","description":"x"})"),
            R"({"type":"integer","description":"x","const":3,"default":2,"minimum":1,"maximum":9,)"
            R"("exclusiveMinimum":0,"multipleOf":1})");
  EXPECT_EQ(Normalized(R"({"const":true,"type":"boolean","description":"b"})"),
            R"({"type":"boolean","description":"b"})");
  EXPECT_EQ(Normalized(R"({"type":["string","null"],"pattern":"z","description":"u"})"),
            R"({"type":["string","null"],"description":"u"})");
  EXPECT_EQ(Normalized(R"({"description":"r","$ref":"#/$def/x"})"), R"({"$ref":"#/$def/x"})");
}

TEST(StrictSchema, AnObjectRequiresAllAndAllowsNoMore) {
  EXPECT_EQ(
      Normalized(R"({"$def":{"x":{"title":"T","type":"null"}},"description":"o","type":"object",)"
                 R"("properties":{"b":{"minItems":1,"items":{"anyOf":[{"type":"string"},true],)"
                 R"("description":"any"},"type":"array"},"a":{"type":"object","properties":{}}}})"),
      R"({"type":"object","properties":{"b":{"type":"array","items":{"anyOf":[{"type":"string"},)"
      R"(true],"description":"any"}},"a":{"type":"object","properties":{},)"
      R"("additionalProperties":false,"required":[]}},"additionalProperties":false,)"
      R"("required":["b","a"],"description":"o","$def":{"x":{"type":"null"}}})");
  EXPECT_EQ(EmptyStrictSchema(),
            R"({"type":"object","properties":{},"additionalProperties":false,"required":[]})");
}

}  // namespace
}  // namespace sluice::codec
