// Parts: what was written is read, all of one run and each once, and nothing else is.
#include "lockstep/harness/explore/parts/part_file.h"

#include <fstream>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace lockstep::explore {
namespace {

using ::testing::HasSubstr;

class PartFileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static PartHeader header(std::uint64_t number, std::uint64_t count) {
    return {.work = SharedWork::kRuns,
            .shard = {number, count},
            .library = "lockstep 0.1.0",
            .facts = {{"scenario", {"a.toml"}}, {"--set", {"x=1", "y=[\"2\"]"}}, {"kept", {}}}};
  }

  std::string part(std::uint64_t number,
                   std::uint64_t count,
                   const std::vector<std::string>& lines = {"{\"run\":0}"}) const {
    return write("part-" + std::to_string(number) + ".jsonl",
                 render_part(header(number, count), lines));
  }

  static std::string refused(const std::vector<std::string>& paths) {
    const auto parts = read_parts(paths);
    return parts.ok() ? "read" : parts.error().text();
  }

  std::string refused(const std::string& text) const {
    const auto read = Part::read(write("hostile.jsonl", text));
    return read.ok() ? "read" : read.error().text().substr(folder_.path().size() + 1);
  }

 private:
  lockstep::testing::TempFolder folder_;
};

TEST_F(PartFileTest, WhatWasWrittenIsRead) {
  const std::string path = part(2, 3, {R"({"run":1,"picks":[1,2],"say":"ä\n"})", R"({"run":4})"});
  const auto read = Part::read(path);

  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read.value().header().shard, (Shard{2, 3}));
  EXPECT_EQ(read.value().header().facts, header(2, 3).facts);
  std::vector<std::uint64_t> runs;
  std::vector<std::uint64_t> picks;
  std::string said;
  const Outcome all = read.value().each([&](PartLine& line) {
    runs.push_back(line.number("run"));
    if (line.has("picks")) picks = line.numbers("picks");
    if (line.has("say")) said = line.text("say");
    return success();
  });
  EXPECT_TRUE(all.ok());
  EXPECT_EQ(runs, (std::vector<std::uint64_t>{1, 4}));
  EXPECT_EQ(picks, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(said, "ä\n");
}

TEST_F(PartFileTest, PartsAreReadInTheOrderOfTheirShards) {
  const auto parts = read_parts(std::vector<std::string>{part(3, 3), part(1, 3), part(2, 3)});

  ASSERT_TRUE(parts.ok()) << parts.error().text();
  ASSERT_EQ(parts.value().size(), 3U);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts.value()[i].header().shard.number, i + 1);
  }
}

TEST_F(PartFileTest, AMissingPartIsNamed) {
  EXPECT_THAT(refused({part(1, 4), part(3, 4)}),
              HasSubstr("part-1.jsonl:1:61: parts are missing: 2/4, 4/4"));
}

TEST_F(PartFileTest, APartThatIsThereTwiceIsNamed) {
  const std::string twin = write("twin.jsonl", render_part(header(1, 2), {}));

  EXPECT_THAT(refused({part(1, 2), twin, part(2, 2)}),
              HasSubstr("twin.jsonl:1:61: shard 1/2 is there twice: "));
}

TEST_F(PartFileTest, PartsOfAnotherRunOrSplitAreRefused) {
  EXPECT_THAT(refused({part(1, 2), part(2, 3)}),
              HasSubstr("part-2.jsonl:1:61: this part has shard 2/3, "));
  PartHeader other = header(2, 2);
  other.facts[1].values = {"x=2"};
  const std::string another = write("other.jsonl", render_part(other, {}));
  EXPECT_THAT(refused({part(1, 2), another}), HasSubstr("this part has --set x=2, "));
  other = header(2, 2);
  other.facts.push_back({"more", {}});
  const std::string longer = write("longer.jsonl", render_part(other, {}));
  EXPECT_THAT(refused({part(1, 2), longer}), HasSubstr("other facts about its run"));
  other = header(2, 2);
  other.library = "lockstep 0.2.0";
  const std::string newer = write("newer.jsonl", render_part(other, {}));
  EXPECT_THAT(refused({part(1, 2), newer}), HasSubstr("this part has lockstep 0.2.0, "));
  other = header(2, 2);
  other.work = SharedWork::kJobs;
  const std::string jobs = write("jobs.jsonl", render_part(other, {}));
  EXPECT_THAT(refused({part(1, 2), jobs}), HasSubstr("this part has jobs, "));
}

TEST_F(PartFileTest, AFileThatWasCutShortIsRefused) {
  const std::string whole = render_part(header(1, 1), std::vector<std::string>{"{}", "{}"});

  EXPECT_EQ(refused(whole), "read");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refused(whole.substr(0, size)), "read") << size;
  }
}

TEST_F(PartFileTest, AHostileFileIsRefusedWithItsPlace) {
  EXPECT_EQ(refused(""), "hostile.jsonl:1:1: not valid JSON");
  EXPECT_EQ(refused("[]\n"), "hostile.jsonl:1:1: a line must be a JSON object");
  EXPECT_THAT(refused("{\"lockstep_part\":2}\n"), HasSubstr("hostile.jsonl:1:2: not a part"));
  EXPECT_THAT(refused("{\"lockstep_part\":1,\"library\":7}\n"),
              HasSubstr("hostile.jsonl:1:20: 'library' must be a string"));
  const std::string head = R"({"lockstep_part":1,"library":"x","work":"runs","shard":)";
  EXPECT_THAT(refused(head + "\"3/2\",\"run\":{}}\n"), HasSubstr("'3/2' is not a shard"));
  EXPECT_THAT(refused(head + "\"1/1\",\"run\":[]}\n"), HasSubstr("'run' must be an object"));
  EXPECT_THAT(refused(head + "\"1/1\",\"run\":{\"--set\":7}}\n"),
              HasSubstr("'--set' must be a list of strings"));
  EXPECT_THAT(refused(head + "\"1/1\",\"run\":{}}\n{}\n{\"end\":2}\n"),
              HasSubstr("hostile.jsonl:3:2: 1 lines stand before the last one"));
  EXPECT_THAT(refused(head + "\"1/1\",\"run\":{}}\n{}\n{\"end\":18446744073709551615}\n"),
              HasSubstr("'end' must be a whole number"));
  EXPECT_THAT(refused(std::string(100'000, '[')), HasSubstr("not valid JSON"));
}

TEST(ShardTest, EveryItemBelongsToExactlyOne) {
  for (std::uint64_t count = 1; count < 9; ++count) {
    for (std::uint64_t item = 0; item < 40; ++item) {
      int n_owners = 0;
      for (std::uint64_t number = 1; number <= count; ++number) {
        const Shard shard{number, count};
        if (shard.has(item)) ++n_owners;
        EXPECT_TRUE(shard.has(shard.next(item)));
        EXPECT_GE(shard.next(item), item);
        EXPECT_LT(shard.next(item), item + count);
      }
      EXPECT_EQ(n_owners, 1);
    }
  }
}

TEST(ShardTest, IsReadAsItIsWrittenAndNothingElseIs) {
  EXPECT_EQ(parse_shard("2/8").value(), (Shard{2, 8}));
  EXPECT_EQ(text_of(parse_shard("1/1").value()), "1/1");
  for (const char* text : {"",
                           "/",
                           "1",
                           "1/",
                           "/2",
                           "0/2",
                           "3/2",
                           "-1/2",
                           "1/2/3",
                           "a/b",
                           "1 /2",
                           "1/1000001",
                           "1/99999999999999999999"}) {
    EXPECT_FALSE(parse_shard(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lockstep::explore
