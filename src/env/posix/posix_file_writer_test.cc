// Writing: what appears under a name is complete or is not there.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "env/posix/posix_env.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

ConstBytes Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class WrittenFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sluice_write_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -r " + folder_).c_str()), 0); }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  std::unique_ptr<FileWriter> Create(const std::string& name) {
    Result<std::unique_ptr<FileWriter>> writer = fs_.Create(PathOf(name));
    EXPECT_TRUE(writer.has_value());
    return writer ? std::move(*writer) : nullptr;
  }

  PosixEnv posix_;
  FileSystem& fs_ = posix_.env().fs;
  std::string folder_;
};

TEST_F(WrittenFolder, AFileAppearsUnderItsNameWhenItIsFinished) {
  std::unique_ptr<FileWriter> writer = Create("a");
  EXPECT_TRUE(writer->Append(Bytes("first ")).ok());
  EXPECT_TRUE(writer->Append({}).ok());
  EXPECT_TRUE(writer->Append(Bytes(std::string(3'000'000, 'x'))).ok());
  EXPECT_EQ(*fs_.List(folder_), (Names{"a.partial"}));
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(*fs_.List(folder_), (Names{"a"}));
  EXPECT_EQ(*fs_.ReadWhole(PathOf("a"), 4'000'000), "first " + std::string(3'000'000, 'x'));
  writer.reset();
  EXPECT_EQ(*fs_.List(folder_), (Names{"a"}));
}

TEST_F(WrittenFolder, WhatIsNotFinishedIsRemovedAndTheOldFileStays) {
  std::ofstream(PathOf("a")) << "old";
  std::unique_ptr<FileWriter> writer = Create("a");
  EXPECT_TRUE(writer->Append(Bytes("new")).ok());
  writer.reset();
  EXPECT_EQ(*fs_.List(folder_), (Names{"a"}));
  EXPECT_EQ(*fs_.ReadWhole(PathOf("a"), 10), "old");
  writer = Create("a");
  EXPECT_TRUE(writer->Append(Bytes("new")).ok());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(*fs_.ReadWhole(PathOf("a"), 10), "new");
}

TEST_F(WrittenFolder, WhatAKilledProcessLeftIsWrittenOver) {
  std::ofstream(PathOf("a.partial")) << "much longer than what follows";
  std::unique_ptr<FileWriter> writer = Create("a");
  EXPECT_TRUE(writer->Append(Bytes("new")).ok());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(*fs_.List(folder_), (Names{"a"}));
  EXPECT_EQ(*fs_.ReadWhole(PathOf("a"), 100), "new");
}

TEST_F(WrittenFolder, AFileInTheWorkingDirectoryNeedsNoFolderInItsName) {
  const std::string name = "sluice_file_writer_test";
  Result<std::unique_ptr<FileWriter>> writer = fs_.Create(name);
  ASSERT_TRUE(writer.has_value());
  EXPECT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(*fs_.Size(name), 0);
  EXPECT_EQ(std::remove(name.c_str()), 0);
}

TEST_F(WrittenFolder, ErrorsNameThePathAsGiven) {
  EXPECT_EQ(fs_.Create("no/such/file").error().message(),
            "no/such/file: its folder does not exist");
  EXPECT_EQ(fs_.Create("no/such/file").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(fs_.Create(folder_).error().message(), folder_ + ": is a directory, not a file");
}

// `sluice logits --out /dev/null` of a privileged user made /dev/null a file.
TEST_F(WrittenFolder, WhatIsNoRegularFileIsNotReplaced) {
  ASSERT_EQ(std::system(("mkfifo " + PathOf("pipe")).c_str()), 0);
  EXPECT_EQ(fs_.Create(PathOf("pipe")).error().message(),
            PathOf("pipe") + ": is not a regular file");
}

// In a process of its own, since the limit cannot be lifted again. 0: everything as it should be.
int WriteAboveTheLimit(FileSystem& fs, const std::string& folder, const std::string& path) {
  constexpr rlim_t kLimit = 100'000;
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {.rlim_cur = kLimit, .rlim_max = kLimit};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  std::unique_ptr<FileWriter> writer = std::move(*fs.Create(path));
  if (!writer->Append(Bytes(std::string(kLimit, 'x'))).ok()) return 2;
  const Status status = writer->Append(Bytes("y"));
  if (status.code() != ErrorCode::kInternal) return 3;
  if (status.message() != path + ": larger than a file may be here (see `ulimit -f`)") return 4;
  writer.reset();
  return fs.List(folder)->empty() ? 0 : 5;
}

// The limit on the size of a file stops a write in the middle, as a full disk does; /dev/full,
// which says ENOSPC, cannot be given a name here.
TEST_F(WrittenFolder, AWriteThatDoesNotFitIsASentenceAndLeavesNothing) {
  EXPECT_EXIT(std::exit(WriteAboveTheLimit(fs_, folder_, PathOf("a"))), testing::ExitedWithCode(0),
              "");
}

TEST_F(WrittenFolder, FoldersAreMadeOneAtATime) {
  EXPECT_TRUE(fs_.MakeFolder(PathOf("a")).ok());
  EXPECT_TRUE(fs_.MakeFolder(PathOf("a")).ok());
  EXPECT_TRUE(fs_.List(PathOf("a"))->empty());
  EXPECT_EQ(fs_.MakeFolder(PathOf("b/c")).message(), PathOf("b/c") + ": its folder does not exist");
  std::ofstream(PathOf("file")) << "x";
  EXPECT_EQ(fs_.MakeFolder(PathOf("file")).message(),
            PathOf("file") + ": is a file, not a directory");
}

TEST_F(WrittenFolder, AFolderGoesWithAllThatIsInItButNotWhatItsLinksPointTo) {
  ASSERT_TRUE(fs_.MakeFolder(PathOf("kept")).ok());
  std::ofstream(PathOf("kept/file")) << "x";
  ASSERT_TRUE(fs_.MakeFolder(PathOf("a")).ok());
  ASSERT_TRUE(fs_.MakeFolder(PathOf("a/b")).ok());
  std::ofstream(PathOf("a/b/file")) << "x";
  std::filesystem::create_directory_symlink(PathOf("kept"), PathOf("a/link"));
  EXPECT_TRUE(fs_.RemoveFolder(PathOf("a")).ok());
  EXPECT_EQ(*fs_.List(folder_), std::vector<std::string>{"kept"});
  EXPECT_EQ(*fs_.Size(PathOf("kept/file")), 1);
  EXPECT_TRUE(fs_.RemoveFolder(PathOf("a")).ok());
}

TEST_F(WrittenFolder, ADiskSaysHowMuchIsFree) {
  EXPECT_GT(*fs_.FreeBytes(folder_), 0);
  EXPECT_NE(fs_.KindOf(folder_), "unknown");
  EXPECT_EQ(fs_.KindOf("no/such"), "unknown");
  EXPECT_EQ(fs_.KindOf("/proc"), "0x9fa0");
  EXPECT_EQ(fs_.FreeBytes("no/such").error().message(), "no/such: no such file or directory");
}

class ReadOnlyFiles : public FileSystem {
 public:
  Result<std::string> ReadWhole(std::string_view, int64_t) override { return std::string(); }
  Result<MappedFile> Map(std::string_view) override { return MappedFile(); }
  Result<int64_t> Size(std::string_view) override { return int64_t{0}; }
  Result<std::vector<std::string>> List(std::string_view) override { return Names(); }
  Result<WallTime> ModifiedAt(std::string_view) override { return WallTime{}; }
};

TEST(FileSystem, ThatCannotBeWrittenSaysSo) {
  ReadOnlyFiles files;
  EXPECT_EQ(files.Create("a").error().message(), "a: this file system cannot be written");
  EXPECT_EQ(files.MakeFolder("a").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(files.FreeBytes("a").error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace sluice
