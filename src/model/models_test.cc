#include "model/models.h"

#include <gtest/gtest.h>

#include <string>

#include "env/posix/posix_env.h"
#include "model/checkpoint/model_folder_test_impl.h"

namespace sluice::model {
namespace {

class ModelsTest : public testing::Test {
 protected:
  Result<ModelPlace> Find(const std::string& path) { return FindModel(env_.env().fs, path); }
  Result<Family> FamilyIn(const std::string& config) {
    folder_.Write("config.json", config);
    return FamilyOf(env_.env().fs, {.path = folder_.path()});
  }

  PosixEnv env_;
  ModelFolder folder_;
};

TEST_F(ModelsTest, AGgufFileIsFoundByItsNameAndAsTheOnlyOneOfAFolder) {
  Result<ModelPlace> place = Find("somewhere/model.gguf");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->kind, ModelPlace::Kind::kGguf);
  EXPECT_EQ(place->path, "somewhere/model.gguf");
  folder_.Write("a.gguf", "");
  place = Find(folder_.path());
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->kind, ModelPlace::Kind::kGguf);
  EXPECT_EQ(place->path, folder_.PathOf("a.gguf"));
  folder_.Write("b.gguf", "");
  place = Find(folder_.path());
  ASSERT_FALSE(place.has_value());
  EXPECT_NE(place.error().message().find("2 GGUF files"), std::string::npos);
  folder_.Write("config.json", "{}");
  EXPECT_EQ(Find(folder_.path())->kind, ModelPlace::Kind::kFolder) << "config.json goes first";
}

TEST_F(ModelsTest, AFolderThatIsNoneIsLeftToWhoeverOpensIt) {
  EXPECT_EQ(Find(folder_.path())->kind, ModelPlace::Kind::kFolder);
  EXPECT_EQ(Find(folder_.PathOf("nothing"))->kind, ModelPlace::Kind::kFolder);
}

TEST_F(ModelsTest, TheFamilyIsThatOfTheModelType) {
  EXPECT_EQ(*FamilyIn(R"({"model_type": "deepseek_v41"})"), Family::kDeepseekV41);
  EXPECT_EQ(*FamilyIn(R"({"model_type": "llama"})"), Family::kDense);
  EXPECT_EQ(*FamilyIn(R"({"model_type": "qwen2"})"), Family::kDense);
  EXPECT_EQ(*FamilyIn("{}"), Family::kDeepseekV41) << "inference/config.json names none";
  EXPECT_EQ(*FamilyIn("{"), Family::kDeepseekV41) << "who reads it says what is wrong";
  EXPECT_EQ(*FamilyOf(env_.env().fs, {.kind = ModelPlace::Kind::kGguf}), Family::kDense);
}

TEST_F(ModelsTest, AModelTypeThatNobodyImplementsIsRefusedWithTheKnownOnes) {
  const Result<Family> family = FamilyIn(R"({"model_type": "mixtral"})");
  ASSERT_FALSE(family.has_value());
  EXPECT_EQ(family.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(
      family.error().message().find(
          R"(model_type is "mixtral"; known are deepseek_v41, deepseek_v41_text, llama, qwen2)"),
      std::string::npos)
      << family.error().message();
}

}  // namespace
}  // namespace sluice::model
