// Appending: what was taken stays, and nobody else writes meanwhile.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "env/posix/posix_env.h"

namespace sluice {
namespace {

ConstBytes Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class AppendFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sluice_append_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -r " + folder_).c_str()), 0); }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  std::string Text(const std::string& name) { return *fs_.ReadWhole(PathOf(name), 1'000'000); }
  std::string ErrorOf(const std::string& path, AppendMode mode) {
    const Result<std::unique_ptr<AppendFile>> file = fs_.OpenAppend(path, mode);
    return file ? "" : std::string(file.error().message());
  }

  PosixEnv posix_;
  FileSystem& fs_ = posix_.env().fs;
  std::string folder_;
};

TEST_F(AppendFolder, WhatIsAppendedStandsBehindWhatWasThere) {
  std::ofstream(PathOf("a")) << "old ";
  {
    Result<std::unique_ptr<AppendFile>> file = fs_.OpenAppend(PathOf("a"), AppendMode::kKeep);
    ASSERT_TRUE(file);
    EXPECT_TRUE((*file)->Append(Bytes("new")).ok());
    EXPECT_EQ(Text("a"), "old new");
    EXPECT_TRUE((*file)->Sync().ok());
    EXPECT_TRUE((*file)->Cut(5).ok());
    EXPECT_TRUE((*file)->Append(Bytes("!")).ok());
  }
  EXPECT_EQ(Text("a"), "old n!");
}

TEST_F(AppendFolder, ANewFileTakesNoNameThatIsTaken) {
  EXPECT_EQ(ErrorOf(PathOf("a"), AppendMode::kNew), "");
  EXPECT_EQ(ErrorOf(PathOf("a"), AppendMode::kNew), PathOf("a") + ": exists already");
  EXPECT_EQ(ErrorOf(PathOf("b"), AppendMode::kKeep), "");
}

TEST_F(AppendFolder, OneProcessWritesAtATime) {
  Result<std::unique_ptr<AppendFile>> file = fs_.OpenAppend(PathOf("a"), AppendMode::kKeep);
  ASSERT_TRUE(file);
  EXPECT_EQ(ErrorOf(PathOf("a"), AppendMode::kKeep),
            PathOf("a") + ": another process is writing it");
  file->reset();
  EXPECT_EQ(ErrorOf(PathOf("a"), AppendMode::kKeep), "");
}

TEST_F(AppendFolder, OnlyRegularFilesAreWritten) {
  EXPECT_EQ(ErrorOf("/dev/null", AppendMode::kKeep), "/dev/null: is not a regular file");
  EXPECT_EQ(ErrorOf(folder_, AppendMode::kKeep), folder_ + ": is a directory, not a file");
  EXPECT_EQ(ErrorOf(PathOf("no/a"), AppendMode::kNew),
            PathOf("no/a") + ": its folder does not exist");
}

}  // namespace
}  // namespace sluice
