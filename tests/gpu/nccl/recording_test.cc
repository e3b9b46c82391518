// Recordings are computed again: of NCCL emulated on the CPU here. Those of GPUs: test gpu.recordings.
#include "lockstep/harness/crosscheck/recording.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "lockstep/base/disk_files.h"

#include "tests/support/emulated_ranks.h"

namespace lockstep {
namespace {

using testing::Emulation;
using testing::TempFolder;

RecordedLaunch recorded_over(const Emulation& emulation, std::int32_t n_ranks) {
  RecordedLaunch launch;
  testing::run_emulated_ranks(emulation, {.n_ranks = n_ranks}, [&](ProcessGroup& group) {
    RecordedLaunch own = record_launch(group, "emulated", collective_cases());
    if (group.rank() == 0) launch = std::move(own);
  });
  return launch;
}

std::string recording_of(const RecordedLaunch& launch) {
  return R"({"format": "lockstep-gpu-recording-1", "date": "2026-01-02", "launches": [)" +
         to_json(launch) + "]}";
}

Result<RecordingCheck> checked(const std::string& text) {
  const TempFolder folder;
  const std::string path = folder.path() + "/one.json";
  std::ofstream(path) << text;
  return check_recording(path);
}

void replace_first(std::string& text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), with);
}

// One launch serves several tests: it is computed once.
const RecordedLaunch& ring_of_three() {
  static const RecordedLaunch launch = recorded_over(Emulation(), 3);
  return launch;
}

TEST(EmulatedRecording, EveryCaseOfARingOfThreeIsAsExpected) {
  std::set<std::string> names;
  for (const RecordedCase& one : ring_of_three().cases) {
    EXPECT_EQ(one.verdict, "nccl-ring") << one.name;
    EXPECT_EQ(one.digests.size(), 3U);
    EXPECT_TRUE(names.insert(one.name).second) << one.name << " is there twice";
  }
  EXPECT_EQ(names.count("all_reduce avg f32 1 probe"), 1U);
  EXPECT_GT(names.size(), 150U);
}

TEST(EmulatedRecording, ARecordingIsComputedAgain) {
  const auto check = checked(recording_of(ring_of_three()));
  ASSERT_TRUE(check.ok()) << check.error().text();
  EXPECT_EQ(check.value().date, "2026-01-02");
  EXPECT_EQ(check.value().n_digests, static_cast<std::int64_t>(3 * ring_of_three().cases.size()));
  EXPECT_TRUE(check.value().problems.empty()) << check.value().problems.front();
}

TEST(EmulatedRecording, AnotherDigestOrVerdictIsNoticed) {
  std::string digest = recording_of(ring_of_three());
  const std::size_t at = digest.find("\"digests\": [") + 20;
  const std::size_t digit = digest.find_first_of("0123456789abcdef", digest.find('"', at) + 1);
  digest[digit] = digest[digit] == '0' ? '1' : '0';
  const auto tampered = checked(digest);
  ASSERT_TRUE(tampered.ok()) << tampered.error().text();
  ASSERT_EQ(tampered.value().problems.size(), 1U);
  EXPECT_NE(tampered.value().problems.front().find("recorded as nccl-ring, computed as impossible"),
            std::string::npos)
      << tampered.value().problems.front();

  std::string verdict = recording_of(ring_of_three());
  replace_first(verdict, "\"verdict\": \"nccl-ring\"", "\"verdict\": \"nccl-tree\"");
  const auto claimed = checked(verdict);
  ASSERT_TRUE(claimed.ok()) << claimed.error().text();
  EXPECT_EQ(claimed.value().problems.size(), 1U);
}

// A recording that is older than an order which explains it: its digests stay, its verdicts are new.
TEST(EmulatedRecording, VerdictsAreWrittenAnew) {
  const TempFolder folder;
  const std::string path = folder.path() + "/one.json";
  const std::string right = recording_of(ring_of_three());
  std::string old = right;
  replace_first(old, "\"verdict\": \"nccl-ring\"", "\"verdict\": \"impossible\"");
  std::ofstream(path) << old;
  ASSERT_EQ(check_recording(path).value().problems.size(), 1U);

  ASSERT_TRUE(judge_recording(path).ok());
  const auto check = check_recording(path);
  ASSERT_TRUE(check.ok());
  EXPECT_TRUE(check.value().problems.empty()) << check.value().problems.front();
  const auto digests = [](const std::string& text) {
    std::vector<std::string> found;
    for (std::size_t at = 0; (at = text.find("\"digests\": [", at)) != std::string::npos; ++at) {
      std::string list = text.substr(at, text.find(']', at) - at);
      std::erase_if(list, [](char c) { return c == ' ' || c == '\n'; });
      found.push_back(std::move(list));
    }
    return found;
  };
  const std::string now = read_file(path).value();
  EXPECT_EQ(digests(now), digests(right));
  EXPECT_LT(now.find("\"format\""), now.find("\"launches\"")) << "keys keep their order";

  std::ofstream(path) << "{}";
  EXPECT_FALSE(judge_recording(path).ok());
  EXPECT_EQ(read_file(path).value(), "{}") << "a file that is not a recording stays as it is";
}

// The sizes of the cases are those that NCCL cuts otherwise, and every one has its own name.
TEST(EmulatedRecording, SizesReachFromOneElementToSixteenMillion) {
  std::set<std::string> names;
  for (const CollectiveCase& one : sized_cases()) names.insert(one.name);
  EXPECT_EQ(names.size(), sized_cases().size());
  EXPECT_EQ(names.count("all_reduce sum f32 1 rough"), 1U);
  EXPECT_EQ(names.count("all_reduce sum f32 16777216 rough"), 1U);
  EXPECT_EQ(names.count("all_reduce sum f16 1048581 rough"), 1U);
}

// Only rounding distinguishes orders, and a single element may fit several rules.
TEST(EmulatedRecording, AnotherRingIsNamed) {
  const RecordedLaunch launch = recorded_over(Emulation({.ring = {0, 2, 1}}), 3);
  for (const RecordedCase& one : launch.cases) {
    EXPECT_NE(one.verdict, "impossible") << one.name;
    for (const std::string part : {"all_reduce sum f32 4097", "all_reduce avg bf16 4097"}) {
      if (!one.name.starts_with(part)) continue;
      EXPECT_EQ(one.verdict, "nccl-ring:0,2,1") << one.name;
    }
  }
}

// What a library would give that does not fuse a factor into the sum, or that adds halves in f32.
TEST(EmulatedRecording, OtherRoundingsAreNamed) {
  testing::TestRuntime test;
  const auto rules = rules_of_verdicts(3);
  const auto named_as = [&](const CollectiveCase& one, const SummingRule& rule) {
    const std::uint64_t digest = expected_digest(test.runtime, one, 0, 3, rule);
    const std::vector<std::uint64_t> all(3, digest);
    return rule_of_digests(test.runtime, one, all, rules);
  };
  for (const CollectiveCase& one : collective_cases()) {
    if (one.name == "all_reduce avg f32 1 probe" || one.name == "all_reduce avg f32 4097 rough") {
      EXPECT_EQ(named_as(one, {.rounding = SummingRule::Rounding::kNotFused}),
                "nccl-ring, not fused");
    }
    if (one.name == "all_reduce sum bf16 4097 rough") {
      EXPECT_EQ(named_as(one, {.rounding = SummingRule::Rounding::kWide}), "nccl-ring, f32 sums");
    }
    if (one.name == "all_reduce sum f32 4097 rough") {
      EXPECT_EQ(named_as(one, {.order = ReductionOrder::kNcclTree}), "nccl-tree");
      EXPECT_EQ(named_as(one, {.order = ReductionOrder::kPairwise}), "");
    }
  }
}

TEST(EmulatedRecording, AFileThatIsNotARecordingIsRefused) {
  EXPECT_EQ(checked("{}").ok(), false);
  EXPECT_EQ(checked("not json").ok(), false);
  const auto rehearsal = checked(R"({"format": "lockstep-rehearsal-without-gpu"})");
  ASSERT_FALSE(rehearsal.ok());
  EXPECT_EQ(rehearsal.error().message, "this is not a recording of a GPU run");
  std::string unknown = recording_of(ring_of_three());
  replace_first(unknown, "all_reduce sum f32 1 rough", "all_reduce sum f32 2 rough");
  const auto stranger = checked(unknown);
  ASSERT_FALSE(stranger.ok());
  EXPECT_EQ(stranger.error().message, "unknown case 'all_reduce sum f32 2 rough'");
  EXPECT_EQ(check_recording("/nowhere.json").ok(), false);
}

}  // namespace
}  // namespace lockstep
