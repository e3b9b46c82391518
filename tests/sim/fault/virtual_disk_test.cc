#include "lockstep/sim/fault/virtual_disk.h"

#include <gmock/gmock.h>

namespace lockstep::sim {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string contents(VirtualDisk& disk, std::string_view path) {
  const Result<std::string> bytes = disk.read(path);
  return bytes.ok() ? bytes.value() : "(missing)";
}

void must(const Outcome& outcome) { ASSERT_TRUE(outcome.ok()); }

TEST(VirtualDisk, ShowsWhatWasWrittenBeforeItIsSafe) {
  VirtualDisk disk;
  must(disk.make_folder("a"));
  must(disk.write("a/x", "one"));
  must(disk.rename("a/x", "a/y"));
  EXPECT_EQ(contents(disk, "a/y"), "one");
  EXPECT_EQ(contents(disk, "a/x"), "(missing)");
  EXPECT_THAT(disk.list("a").value(), ElementsAre("y"));
  must(disk.remove("a/y"));
  EXPECT_THAT(disk.list("a").value(), IsEmpty());
  EXPECT_FALSE(disk.remove("a/y").ok());
  EXPECT_FALSE(disk.rename("a/y", "a/z").ok());
}

TEST(VirtualDisk, HasNoFolderThatWasNotMade) {
  VirtualDisk disk;
  EXPECT_FALSE(disk.write("a/x", "one").ok());
  EXPECT_FALSE(disk.publish("a/x", "one").ok());
  EXPECT_EQ(contents(disk, "a/x"), "(missing)");
  must(disk.write("x", "one"));
  EXPECT_FALSE(disk.rename("x", "a/x").ok());
  EXPECT_EQ(contents(disk, "x"), "one");

  must(disk.make_folder("a/b"));  // And "a".
  must(disk.write("a/x", "one"));
  must(disk.write("./a/b/y", "two"));
  disk.crash(CrashFate::kLost, 0);
  must(disk.write("a/b/y", "three"));
}

TEST(VirtualDisk, KeepsBytesOnlyWithTheirFileAndItsFolderSynced) {
  VirtualDisk disk;
  must(disk.make_folder("a"));
  must(disk.write("a/name-only", "one"));
  must(disk.sync("a"));
  must(disk.write("a/bytes-only", "two"));
  must(disk.sync("a/bytes-only"));
  must(disk.write("a/both", "three"));
  must(disk.sync("a/both"));
  VirtualDisk other = disk;  // The folder is not synced again: "both" has no durable name there.
  must(disk.sync("a"));
  must(disk.write("a/both", "overwritten"));
  disk.crash(CrashFate::kLost, 0);
  EXPECT_EQ(contents(disk, "a/name-only"), "");
  EXPECT_EQ(contents(disk, "a/bytes-only"), "two");
  EXPECT_EQ(contents(disk, "a/both"), "three");
}

TEST(VirtualDisk, TearsWhatWasNotSynced) {
  VirtualDisk disk;
  must(disk.make_folder("a"));
  must(disk.write("a/x", "12345678"));
  disk.crash(CrashFate::kTorn, 0);
  EXPECT_EQ(contents(disk, "a/x"), "1234");
  must(disk.write("a/y", "12345678"));
  disk.crash(CrashFate::kKept, 0);
  EXPECT_EQ(contents(disk, "a/y"), "12345678");
}

TEST(VirtualDisk, RenamesInOneStepWhateverSurvives) {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    VirtualDisk disk;
    must(disk.make_folder("a"));
    must(disk.publish("a/x", "old"));
    must(disk.write("a/x.part", "new"));
    must(disk.sync("a/x.part"));
    must(disk.rename("a/x.part", "a/x"));
    disk.crash(CrashFate::kReordered, seed);
    EXPECT_THAT(contents(disk, "a/x"), AnyOf("old", "new")) << seed;
  }
}

TEST(VirtualDisk, LetsAPublishedFileSurviveEverything) {
  for (const CrashFate fate : {CrashFate::kLost, CrashFate::kTorn, CrashFate::kReordered}) {
    VirtualDisk disk;
    must(disk.make_folder("a"));
    must(disk.publish("a/x", "whole"));
    disk.crash(fate, 7);
    EXPECT_EQ(contents(disk, "a/x"), "whole");
  }
}

TEST(VirtualDisk, AFullDiskCutsWritesShortAndRefusesPublications) {
  VirtualDisk disk(10);
  must(disk.make_folder("a"));
  must(disk.write("a/x", "1234567"));
  EXPECT_FALSE(disk.write("a/y", "1234567").ok());
  EXPECT_EQ(contents(disk, "a/y"), "123");
  EXPECT_FALSE(disk.publish("a/z", "1").ok());
  EXPECT_THAT(disk.list("a").value(), ElementsAre("x", "y"));
}

}  // namespace
}  // namespace lockstep::sim
