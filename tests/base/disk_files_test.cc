#include "lockstep/base/disk_files.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DiskFiles, PublishListRenameAndRemove) {
  const testing::TempFolder temp;
  const std::string folder = temp.path() + "/a/b";
  DiskFiles files;
  EXPECT_THAT(files.list(folder).value(), IsEmpty());
  ASSERT_TRUE(files.make_folder(folder).ok());
  ASSERT_TRUE(files.make_folder(folder).ok());
  ASSERT_TRUE(files.publish(folder + "/y", "one").ok());
  ASSERT_TRUE(files.publish(folder + "/y", "two").ok());
  ASSERT_TRUE(files.write(folder + "/x", "three").ok());
  ASSERT_TRUE(files.sync(folder + "/x").ok());
  EXPECT_THAT(files.list(folder).value(), ElementsAre("x", "y"));
  EXPECT_EQ(files.read(folder + "/y").value(), "two");
  ASSERT_TRUE(files.rename(folder + "/x", folder + "/y").ok());
  EXPECT_EQ(files.read(folder + "/y").value(), "three");
  ASSERT_TRUE(files.remove(folder + "/y").ok());
  EXPECT_THAT(files.list(folder).value(), IsEmpty());
}

std::string text_of(const std::string& path) { return DiskFiles().read(path).value(); }

TEST(DiskFiles, PublishingLeavesAnothersTemporaryFilesAndLinksAlone) {
  const testing::TempFolder temp;
  const std::string report = temp.path() + "/r.html";
  const std::string victim = temp.path() + "/victim";
  DiskFiles files;
  ASSERT_TRUE(files.write(victim, "precious").ok());
  std::filesystem::create_symlink(victim, report + ".part");

  ASSERT_TRUE(files.publish(report, "new").ok());

  EXPECT_EQ(text_of(victim), "precious");
  EXPECT_TRUE(std::filesystem::is_symlink(report + ".part"));
  EXPECT_FALSE(std::filesystem::is_symlink(report));
  EXPECT_EQ(text_of(report), "new");
  EXPECT_THAT(files.list(temp.path()).value(), ElementsAre("r.html", "r.html.part", "victim"));
}

TEST(DiskFiles, PublishingThroughALinkKeepsTheLink) {
  const testing::TempFolder temp;
  const std::string target = temp.path() + "/target";
  const std::string link = temp.path() + "/link";
  DiskFiles files;
  std::filesystem::create_symlink("target", link);
  for (const char* text : {"made", "replaced"}) {
    ASSERT_TRUE(files.publish(link, text).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(text_of(target), text);
  }
}

TEST(DiskFiles, PublishingIntoAPipeKeepsThePipe) {
  const testing::TempFolder temp;
  const std::string pipe = temp.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);

  ASSERT_TRUE(DiskFiles().publish(pipe, "through").ok());

  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 7);
  EXPECT_EQ(std::string(got.data()), "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(DiskFiles, APublicationThatFailsKeepsTheOldFileAndGivesTheReason) {
  const testing::TempFolder temp;
  const std::string report = temp.path() + "/r.html";
  DiskFiles files;
  ASSERT_TRUE(files.publish(report, "old").ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);

  const Outcome failed = files.publish(report, std::string(5000, 'x'));

  ::setrlimit(RLIMIT_FSIZE, &before);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().text(), report + ": cannot write this file: File too large");
  EXPECT_EQ(text_of(report), "old");
  EXPECT_THAT(files.list(temp.path()).value(), ElementsAre("r.html"));
}

TEST(DiskFiles, PublishingKeepsTheRightsOfTheFile) {
  const testing::TempFolder temp;
  const std::string path = temp.path() + "/private";
  DiskFiles files;
  ASSERT_TRUE(files.publish(path, "old").ok());
  constexpr auto kOwner = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(path, kOwner);
  ASSERT_TRUE(files.publish(path, "new").ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), kOwner);
}

TEST(DiskFiles, SayWhatDidNotWork) {
  const testing::TempFolder temp;
  DiskFiles files;
  const std::string missing = temp.path() + "/missing/x";
  EXPECT_FALSE(files.write(missing, "x").ok());
  EXPECT_FALSE(files.publish(missing, "x").ok());
  EXPECT_FALSE(files.sync(missing).ok());
  EXPECT_FALSE(files.rename(missing, temp.path() + "/y").ok());
  EXPECT_EQ(files.remove(missing).error().message, "no such file");
  EXPECT_FALSE(files.read(temp.path()).ok());
}

}  // namespace
}  // namespace lockstep
