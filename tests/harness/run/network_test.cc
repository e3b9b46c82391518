// What takes how long: read, and played.
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

class NetworkTest : public ScenarioFiles {};

TEST_F(NetworkTest, LinksAndComputingAreRead) {
  const auto scenario =
      load(replaced(small_job(), "{ ranks = 2 }", "{ nodes = 1, ranks_per_node = 2, seed = 9 }") +
           "[sim]\nfidelity = \"message\"\norder = \"gloo-ring\"\nchunk_bytes = 4096\n"
           "link = { intra = { latency_ns = 2000, gb_per_s = 50, jitter_ns = 10 }, "
           "inter = { latency_ns = 9000, gb_per_s = 12.5 } }\n"
           "compute = { gflops = 0.5, jitter = 0.1, slow = [ { ranks = [1], factor = 2.5 } ] }\n");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const sim::SessionOptions& session = scenario.value().session;
  EXPECT_TRUE(session.timed);
  EXPECT_EQ(session.group.fidelity, sim::Fidelity::kMessage);
  const sim::NetOptions& net = session.group.net;
  EXPECT_EQ(net.ranks_per_node, 2);
  EXPECT_EQ(net.chunk_bytes, 4096);
  EXPECT_EQ(net.seed, 9U);
  EXPECT_EQ(net.intra.latency_ns, 2000);
  EXPECT_EQ(net.intra.gb_per_s, 50.0);
  EXPECT_EQ(net.intra.jitter_ns, 10);
  EXPECT_EQ(net.inter.gb_per_s, 12.5);
  EXPECT_EQ(session.compute.mflops, 500);
  EXPECT_EQ(session.compute.jitter_permille, 100);
  ASSERT_EQ(session.compute.slow.size(), 1U);
  EXPECT_EQ(session.compute.slow[0].rank, 1);
  EXPECT_EQ(session.compute.slow[0].permille, 2500);
}

TEST_F(NetworkTest, WithoutThemNothingTakesTime) {
  const auto scenario = load(small_job() + "sim = { fidelity = \"message\" }\n");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  EXPECT_FALSE(scenario.value().session.timed);
  EXPECT_EQ(load(small_job()).value().session.group.fidelity, sim::Fidelity::kRendezvous);
}

TEST_F(NetworkTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(error_of(small_job() + "sim = { fidelity = \"massage\" }\n"),
            "job.toml:9:20: 'sim.fidelity' does not know 'massage'; did you mean 'message'?");
  EXPECT_EQ(error_of(small_job() + "sim = { link = { intra = { latency = 1 } } }\n"),
            "job.toml:9:28: unknown key 'latency' in 'sim.link.intra'; did you mean 'latency_ns'?");
  EXPECT_NE(error_of(small_job() + "sim = { compute = { gflops = 0 } }\n"), "");
}

/// y = W2 W1 x, each weight in its own bucket. A multiplication or addition takes a
/// nanosecond, and so does a byte on the link.
std::string two_buckets(const std::string& more) {
  return "format = 1\n"
         "world = { ranks = 2 }\n"
         "model = { kind = \"mlp\", widths = [8, 16, 4], bias = false, activation = \"none\" }\n"
         "data = { kind = \"synthetic\", size = 8, features = 8, outputs = 4 }\n"
         "loader = { batch = 4 }\n"
         "ddp = { first_bucket_bytes = 1, bucket_cap_mb = 0.00001 }\n"
         "loop = { steps = 3 }\n"
         "[sim]\norder = \"gloo-ring\"\n"
         "link = { intra = { latency_ns = 100, gb_per_s = 1 } }\n" +
         more;
}

/// When things happened on one rank, since its last forward: the first backward reduces everything
/// at once, the second forward makes the buckets.
struct Timeline {
  std::vector<std::int64_t> posted;
  std::vector<std::int64_t> completed;
  std::int64_t step = 0;
};

Timeline timeline_of(const ScenarioResult& result, Rank rank) {
  Timeline timeline;
  std::int64_t start = -1;
  std::int64_t last = 0;
  for (const Event& event : result.session.trace->events(rank)) {
    EXPECT_GE(event.time.ns, last) << "time is monotone";
    last = event.time.ns;
    if (std::holds_alternative<ForwardEvent>(event.body)) {
      timeline = {};
      start = event.time.ns;
    }
    if (start < 0) continue;
    if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
      if (collective->signature.op != CollectiveOp::kAllReduce) continue;
      const bool posted = collective->phase == CollectivePhase::kPosted;
      (posted ? timeline.posted : timeline.completed).push_back(event.time.ns - start);
    }
    if (std::holds_alternative<StepEvent>(event.body)) timeline.step = event.time.ns - start;
  }
  return timeline;
}

// By hand, for 4 samples per rank. Forward: 2*4*16*8 + 2*4*4*16 = 1536 ns. Backward of W2: two
// products of 512 ns, so its bucket leaves at 2560; of W1: 1024 ns, at 3584. Rings of two ranks:
// 2 (100 + 256/2) = 456 ns for W2, which is over before W1's gradient is there, and
// 2 (100 + 512/2) = 712 ns for W1.
TEST_F(NetworkTest, TransfersOverlapWithTheBackward) {
  for (const std::string fidelity : {"rendezvous", "message"}) {
    const auto scenario =
        load(two_buckets("compute = { gflops = 1 }\nfidelity = \"" + fidelity + "\"\n"));
    ASSERT_TRUE(scenario.ok()) << scenario.error().text();
    const auto result = run_scenario(scenario.value(), {});
    ASSERT_TRUE(result.ok()) << result.error().text();
    EXPECT_EQ(name_of(result.value().report.outcome), "ok");
    for (const Rank rank : {Rank{0}, Rank{1}}) {
      const Timeline timeline = timeline_of(result.value(), rank);
      EXPECT_EQ(timeline.posted, (std::vector<std::int64_t>{2560, 3584})) << fidelity;
      EXPECT_EQ(timeline.completed, (std::vector<std::int64_t>{2560 + 456, 3584 + 712}))
          << fidelity;
      EXPECT_EQ(timeline.step, 4296);
      EXPECT_LT(timeline.step, 3584 + 456 + 712) << "less than computing and then communicating";
    }
  }
}

// As above, but W1's product loses half of the 456 ns in which W2's bucket is under way, and makes up for it at its end.
TEST_F(NetworkTest, ComputingLosesItsShareOfSpeedWhileMessagesAreUnderWay) {
  for (const std::string fidelity : {"rendezvous", "message"}) {
    const auto scenario = load(two_buckets(
        "compute = { gflops = 1, contention = 0.5 }\nfidelity = \"" + fidelity + "\"\n"));
    ASSERT_TRUE(scenario.ok()) << scenario.error().text();
    const auto result = run_scenario(scenario.value(), {});
    ASSERT_TRUE(result.ok()) << result.error().text();
    for (const Rank rank : {Rank{0}, Rank{1}}) {
      const Timeline timeline = timeline_of(result.value(), rank);
      EXPECT_EQ(timeline.posted, (std::vector<std::int64_t>{2560, 3584 + 228})) << fidelity;
      EXPECT_EQ(timeline.step, 3584 + 228 + 712) << fidelity;
    }
  }
}

// Twenty times as fast, W1's product takes 51 ns of the 456, and what it makes up for is slowed down as well: 51 + 25 + 12 +
// 6 + 3 + 1.
TEST_F(NetworkTest, WhatIsMadeUpForIsSlowedDownAsWell) {
  const auto scenario = load(two_buckets("compute = { gflops = 20, contention = 0.5 }\n"));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok()) << result.error().text();
  const Timeline timeline = timeline_of(result.value(), Rank{0});
  ASSERT_EQ(timeline.posted.size(), 2U);
  EXPECT_EQ(timeline.posted[1] - timeline.posted[0], 51 + 25 + 12 + 6 + 3 + 1);
}

TEST_F(NetworkTest, ARankThatLosesAllOfItsSpeedIsRefused) {
  EXPECT_NE(error_of(small_job() + "sim = { compute = { contention = 1 } }\n")
                .find("with 'contention' 1 a rank would never end its products"),
            std::string::npos);
  EXPECT_NE(error_of(small_job() + "sim = { compute = { contention = -0.1 } }\n"), "");
  EXPECT_EQ(error_of(small_job() + "sim = { compute = { contention = 0.999 } }\n"), "no error");
}

// Rank 1 computes three times as long: its buckets come at 7680 and 10752, and rank 0 waits.
TEST_F(NetworkTest, ASlowRankIsWaitedFor) {
  const auto scenario =
      load(two_buckets("compute = { gflops = 1, slow = [ { ranks = [1], factor = 3 } ] }\n"));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok()) << result.error().text();
  const Timeline fast = timeline_of(result.value(), Rank{0});
  const Timeline slow = timeline_of(result.value(), Rank{1});
  EXPECT_EQ(fast.posted, (std::vector<std::int64_t>{2560, 3584}));
  EXPECT_EQ(slow.posted, (std::vector<std::int64_t>{7680, 10752}));
  EXPECT_EQ(fast.completed, (std::vector<std::int64_t>{7680 + 456, 10752 + 712}));
  EXPECT_EQ(fast.step, 10752 + 712);
}

TEST_F(NetworkTest, TimeChangesNoResult) {
  const auto digest = [](const std::string& more) {
    const auto scenario = load(two_buckets(more));
    EXPECT_TRUE(scenario.ok()) << scenario.error().text();
    return run_scenario(scenario.value(), {}).value().report.result_digest;
  };
  const std::uint64_t bare = digest("");
  EXPECT_EQ(digest("compute = { gflops = 1, jitter = 0.5 }\n"), bare);
  EXPECT_EQ(digest("compute = { gflops = 1 }\nfidelity = \"message\"\nchunk_bytes = 32\n"), bare);
}

}  // namespace
}  // namespace lockstep
