#include "serve/sse.h"

#include <gtest/gtest.h>

namespace sluice::serve {
namespace {

TEST(BodyFrames, APieceIsOneChunkAndTheLastOneEndsTheBody) {
  BodyFrames frames(Framing::kChunked);
  frames.Begin() += std::string(26, 'x');
  EXPECT_EQ(frames.Write(false), "0000001a\r\n" + std::string(26, 'x') + "\r\n");
  frames.Begin();
  EXPECT_EQ(frames.Write(false), "");
  frames.Begin() += "y";
  EXPECT_EQ(frames.Write(true), "00000001\r\ny\r\n0\r\n\r\n");
  frames.Begin();
  EXPECT_EQ(frames.Write(true), "0\r\n\r\n");
}

TEST(BodyFrames, OldClientsGetTheBytesAsTheyAre) {
  BodyFrames frames(Framing::kClose);
  frames.Begin() += "abc";
  EXPECT_EQ(frames.Write(false), "abc");
  frames.Begin();
  EXPECT_EQ(frames.Write(true), "");
}

}  // namespace
}  // namespace sluice::serve
