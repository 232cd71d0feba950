// Files as memory, their sizes, and what lies in a folder. Whole reads: posix_env_test.cc.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "env/posix/posix_env.h"

namespace sluice {
namespace {

class PosixFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sluice_files_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -r " + folder_).c_str()), 0); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  static std::string Text(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }

  PosixEnv posix_;
  FileSystem& fs_ = posix_.env().fs;
  std::string folder_;
};

TEST_F(PosixFolder, AMappedFileHasTheBytesAndOutlivesItsName) {
  const std::string text = std::string("a\0b", 3) + std::string(10'000, 'x');
  const std::string path = Write("a", text);
  Result<MappedFile> file = fs_.Map(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(Text(*file), text);
}

TEST_F(PosixFolder, AMappingMovesAndIsGivenBackOnce) {
  Result<MappedFile> a = fs_.Map(Write("a", "first"));
  Result<MappedFile> b = fs_.Map(Write("b", "second"));
  MappedFile moved = std::move(*a);
  EXPECT_TRUE(a->bytes().empty());
  moved = std::move(*b);
  EXPECT_EQ(Text(moved), "second");
  moved = MappedFile();
  EXPECT_TRUE(moved.bytes().empty());
}

TEST_F(PosixFolder, AnEmptyFileIsMappedAsNothing) {
  Result<MappedFile> file = fs_.Map(Write("empty", ""));
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->bytes().empty());
  file->Advise(MappedFile::Advice::kDrop, 0, 0);
}

TEST_F(PosixFolder, AdviceChangesNoByte) {
  const std::string text(100'000, 'y');
  Result<MappedFile> file = fs_.Map(Write("a", text));
  using Advice = MappedFile::Advice;
  for (Advice advice : {Advice::kSequential, Advice::kRandom, Advice::kDrop}) {
    file->Advise(advice, 4097, 50'000);
    file->Advise(advice, 100'000, 0);
    EXPECT_EQ(Text(*file), text);
  }
  file->Drop(file->bytes().subspan(5'000, 60'000));
  EXPECT_EQ(Text(*file), text);
  std::string elsewhere(10'000, 'z');
  file->Drop(std::as_bytes(std::span(elsewhere)));  // nothing of the file
  EXPECT_EQ(elsewhere, std::string(10'000, 'z'));
  EXPECT_DEATH(file->Advise(Advice::kDrop, 1, 100'000), "");
}

TEST_F(PosixFolder, SizesAreThoseOfRegularFiles) {
  EXPECT_EQ(*fs_.Size(Write("a", "12345")), 5);
  EXPECT_EQ(fs_.Size(folder_).error().message(), folder_ + ": is a directory, not a file");
  EXPECT_EQ(fs_.Size("/dev/null").error().message(), "/dev/null: is not a regular file");
  EXPECT_EQ(fs_.Size("no/such").error().message(), "no/such: no such file");
  EXPECT_EQ(fs_.Map(folder_).error().message(), folder_ + ": is a directory, not a file");
  EXPECT_EQ(fs_.Map("/dev/zero").error().message(), "/dev/zero: is not a regular file");
  EXPECT_EQ(fs_.Map("no/such").error().code(), ErrorCode::kNotFound);
}

TEST_F(PosixFolder, AnErrorIsAPhraseAndNotANumber) {
  const std::string path = folder_ + "/loop";
  ASSERT_EQ(std::system(("ln -s loop " + path).c_str()), 0);
  const std::string phrase = path + ": cannot be read: Too many levels of symbolic links";
  EXPECT_EQ(fs_.ReadWhole(path, 10).error().message(), phrase);
  EXPECT_EQ(fs_.Map(path).error().message(), phrase);
  EXPECT_EQ(fs_.Size(path).error().message(), phrase);
}

TEST_F(PosixFolder, AFolderIsListedInOrder) {
  Write("b", "");
  Write("a", "");
  Write(".hidden", "");
  EXPECT_EQ(*fs_.List(folder_), (std::vector<std::string>{".hidden", "a", "b"}));
  EXPECT_EQ(fs_.List(folder_ + "/a").error().message(), folder_ + "/a: is not a directory");
  EXPECT_EQ(fs_.List("no/such").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace sluice
