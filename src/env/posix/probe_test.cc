#include "env/posix/probe.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/bytes.h"

namespace sluice {
namespace {

constexpr ReadTrialLimits kLimits = {.n_bytes = 8 * kMiB, .time = Duration::Seconds(10)};

TEST(Probe, AFileIsReadToItsEndOrToTheLimit) {
  const std::string path = testing::TempDir() + "probe_read";
  std::ofstream(path) << std::string(5'000'001, 'x');
  Result<ReadTrial> trial = TryReading(path, kLimits);
  ASSERT_TRUE(trial) << trial.error().message();
  EXPECT_EQ(trial->n_bytes, 5'000'001);
  EXPECT_GT(trial->bytes_per_s(), 0);
  trial = TryReading(path, {.n_bytes = 4 * kMiB, .time = Duration::Seconds(10)});
  EXPECT_EQ(trial->n_bytes, 4 * kMiB);
  std::filesystem::remove(path);
  EXPECT_FALSE(TryReading(path, kLimits));
  EXPECT_FALSE(TryReading(testing::TempDir(), kLimits));
}

TEST(Probe, AFolderHoldsNothingAfterItsTrial) {
  const std::string folder = testing::TempDir() + "probe_folder";
  std::filesystem::create_directory(folder);
  const Result<ReadTrial> trial = TryFolder(folder, kLimits);
  ASSERT_TRUE(trial) << trial.error().message();
  EXPECT_EQ(trial->n_bytes, 8 * kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  EXPECT_FALSE(TryFolder(folder, kLimits));
}

TEST(Probe, APortThatIsTakenIsToldFromOneThatIsFree) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int32_t port = ntohs(address.sin_port);
  EXPECT_FALSE(TryListening("127.0.0.1", port).ok());
  EXPECT_TRUE(TryListening("127.0.0.1", 0).ok());
  EXPECT_TRUE(TryListening("localhost", 0).ok());
  close(taken);
  EXPECT_TRUE(TryListening("127.0.0.1", port).ok());
  EXPECT_FALSE(TryListening("not an address", 0).ok());
}

}  // namespace
}  // namespace sluice
