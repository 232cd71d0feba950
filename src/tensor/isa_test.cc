#include "tensor/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(Isa, TheReferenceIsAlwaysThereAndLowerSetsAreWithHigherOnes) {
  const IsaSet isas = IsasOfMachine();
  EXPECT_TRUE(isas.Has(Isa::kRef));
  bool missing = false;
  for (const Isa isa : kIsas) {
    EXPECT_FALSE(missing && isas.Has(isa)) << NameOf(isa);
    missing = missing || !isas.Has(isa);
  }
}

TEST(Isa, UpToLeavesOutWhatIsAbove) {
  const IsaSet isas = IsaSet{Isa::kRef, Isa::kAvx2, Isa::kAvx512}.UpTo(Isa::kAvx2);
  EXPECT_TRUE(isas.Has(Isa::kRef) && isas.Has(Isa::kAvx2));
  EXPECT_FALSE(isas.Has(Isa::kAvx512));
}

TEST(Isa, AChoiceLowersAllOrOneOperator) {
  const Result<IsaChoice> all = ParseIsaChoice("ref");
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->Of("linear").Has(Isa::kAvx2));
  const Result<IsaChoice> one = ParseIsaChoice("linear:ref");
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->Of("linear").Has(Isa::kAvx2));
  EXPECT_EQ(one->Of("rotary").Has(Isa::kAvx2), IsasOfMachine().Has(Isa::kAvx2));
}

TEST(Isa, TheLastOfSeveralChoicesCounts) {
  const Result<IsaChoice> choice = ParseIsaChoice("linear:ref,ref");
  ASSERT_TRUE(choice);
  EXPECT_TRUE(choice->of_op.empty());
  if (!IsasOfMachine().Has(Isa::kAvx2)) GTEST_SKIP() << "needs AVX2";
  EXPECT_TRUE(ParseIsaChoice("ref,linear:ref,linear:avx2")->Of("linear").Has(Isa::kAvx2));
}

TEST(Isa, WhatIsUnknownIsToldWithWhatThereIs) {
  for (const char* text : {"", "avx3", "linear:", "linear:sse", "ref,", ":"}) {
    const Result<IsaChoice> choice = ParseIsaChoice(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_THAT(choice.error().message(), HasSubstr("this machine has ref")) << text;
  }
}

}  // namespace
}  // namespace sluice
