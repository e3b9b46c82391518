// The sanitizer of memory in flight, as a user of run_ranks sees it.
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/run.h"

namespace lockstep::testing {

namespace {

const LawResult& in_flight_law(const Report& report) {
  for (const LawResult& law : report.laws) {
    if (law.law == "in-flight-untouched") return law;
  }
  throw std::logic_error("the law is not in the report");
}

Tensor ones(RankContext& context) { return Tensor::full(context.runtime(), {4}, DType::kF32, 1.0); }

}  // namespace

TEST(InFlightTest, ALookBeforeTheWaitIsFoundWithBothPlaces) {
  constexpr int kPosted = __LINE__ + 4;
  constexpr int kTouched = __LINE__ + 4;
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    const Tensor data = ones(context);
    const Work work = context.world().all_reduce(Memory::of(data));
    if (context.rank() == 1) (void)data.slice(2, {2}).at(1);
    work.wait_or_throw();
  });
  EXPECT_EQ(name_of(run.report.outcome), "findings");
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << render_text(run.report, false);
  const Finding& finding = law.findings[0];
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(finding.field, "read");
  EXPECT_NE(finding.site.find("in_flight_test.cc:" + std::to_string(kTouched)), std::string::npos)
      << finding.site;
  EXPECT_NE(finding.other_site.find("in_flight_test.cc:" + std::to_string(kPosted)),
            std::string::npos)
      << finding.other_site;
}

// Whether the transfer has ended is up to the schedule; whose memory it is, is not.
TEST(InFlightTest, EveryScheduleFindsIt) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto run = run_ranks({.ranks = 3, .schedule_seed = seed, .strategy = "random"},
                               [](RankContext& context) {
                                 const Tensor data = ones(context);
                                 const Work work = context.world().all_reduce(Memory::of(data));
                                 context.host().point({});
                                 context.runtime().kernels().fill(data, 0.0);
                                 work.wait_or_throw();
                               });
    const LawResult& law = in_flight_law(run.report);
    ASSERT_EQ(law.findings.size(), 1U);
    EXPECT_EQ(law.findings[0].ranks.size(), 3U);
    EXPECT_EQ(law.findings[0].message.rfind("writes (fill)", 0), 0U) << law.findings[0].message;
  }
}

TEST(InFlightTest, AfterTheWaitTheMemoryIsTheProgramsAgain) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    const Tensor data = ones(context);
    const Tensor other = ones(context);
    const Work work = context.world().all_reduce(Memory::of(data));
    context.runtime().kernels().fill(other, 2.0);
    work.wait_or_throw();
    EXPECT_EQ(data.at(0), 2.0);
    context.runtime().kernels().add(data, data, other);
  });
  EXPECT_TRUE(run.ok()) << render_text(run.report, false);
  EXPECT_EQ(in_flight_law(run.report).verdict, Verdict::kHolds);
}

// What a program does to memory of its own, past every function of the library.
TEST(InFlightTest, ARawWriteBeforeTheWaitIsFound) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<float> data(4, 1.0F);
    const Work work = context.world().all_reduce(Memory::of(std::span(data)));
    if (context.rank() == 1) data[2] = 7.0F;
    work.wait_or_throw();
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
  });
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << run;
  EXPECT_EQ(law.findings[0].ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(law.findings[0].field, "write");
  EXPECT_EQ(law.findings[0].cause, Cause::kOverlapRace);
  EXPECT_NE(law.findings[0].other_site.find("in_flight_test.cc"), std::string::npos);
}

TEST(InFlightTest, ARawWriteToIntegersIsFound) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<std::int64_t> data(3, 5);
    const Work work = context.world().broadcast(Memory::of(std::span(data)), 0);
    if (context.rank() == 1) data[0] = 6;
    work.wait_or_throw();
    EXPECT_EQ(data[0], 5);
  });
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << run;
  EXPECT_EQ(law.findings[0].ranks, std::vector<Rank>{Rank{1}});
}

TEST(InFlightTest, ARawWriteToWhatASendReadsIsFound) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<float> data(4, static_cast<float>(context.rank()));
    if (context.rank() == 0) {
      const Work work = context.world().send(Memory::of(std::span(data)), 1);
      data[3] = 9.0F;
      work.wait_or_throw();
    } else {
      context.world().recv(Memory::of(std::span(data)), 0).wait_or_throw();
    }
  });
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << run;
  EXPECT_EQ(law.findings[0].ranks, std::vector<Rank>{Rank{0}});
  EXPECT_EQ(law.findings[0].field, "write");
}

// The sum is used where only its rank's own part was: a mean that is not one, in the next call.
TEST(InFlightTest, ARawReadBeforeTheWaitIsFoundByItsValue) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto run = run_ranks({.ranks = 3, .schedule_seed = seed, .strategy = "random"},
                               [](RankContext& context) {
                                 std::vector<float> loss(1, 1.5F);
                                 std::vector<float> mean(1);
                                 const Memory all = Memory::of(std::span(loss));
                                 const Work work = context.world().all_reduce(all);
                                 mean[0] = loss[0] / 3.0F;
                                 work.wait_or_throw();
                                 EXPECT_EQ(loss[0], 4.5F);
                                 const Memory next = Memory::of(std::span(mean));
                                 context.world().all_reduce(next).wait_or_throw();
                               });
    const LawResult& law = in_flight_law(run.report);
    ASSERT_EQ(law.findings.size(), 1U) << run;
    const Finding& finding = law.findings[0];
    EXPECT_EQ(finding.ranks.size(), 3U);
    EXPECT_EQ(finding.seq, 0);
    EXPECT_EQ(finding.field, "read");
    EXPECT_EQ(finding.cause, Cause::kAsyncNoWait);
  }
}

/// Trains on rows that `reader` takes from memory before it has been waited for: one rank, or all (-1).
auto train_on_a_raw_read(std::int32_t reader) {
  return run_ranks({.ranks = 2}, [reader](RankContext& context) {
    Generator seed(0);
    nn::Linear model(context.runtime(), 2, 1, seed);
    DistributedDataParallel ddp(model, context.world());
    std::vector<float> scale(1, 0.5F);
    const Work work = context.world().all_reduce(Memory::of(std::span(scale)));
    const bool reads = reader < 0 || reader == context.rank();
    const float early = reads ? scale[0] : 1.0F;
    work.wait_or_throw();
    const Tensor rows = Tensor::full(context.runtime(), {2, 2}, DType::kF32, early);
    sum(ddp(Variable(rows))).backward();
  });
}

// Each rank's own gradient names its own transfer, whatever becomes of the mean.
TEST(InFlightTest, ARawReadIsFoundOnEachRankThatMadeIt) {
  for (const std::int32_t reader : {0, 1}) {
    const auto run = train_on_a_raw_read(reader);
    const LawResult& law = in_flight_law(run.report);
    ASSERT_EQ(law.findings.size(), 1U) << run;
    EXPECT_EQ(law.findings[0].ranks, std::vector<Rank>{Rank{reader}});
  }
  const auto run = train_on_a_raw_read(-1);
  const std::vector<Rank> both = {Rank{0}, Rank{1}};
  ASSERT_EQ(in_flight_law(run.report).findings.size(), 1U) << run;
  EXPECT_EQ(in_flight_law(run.report).findings[0].ranks, both);
}

TEST(InFlightTest, ARawReadIsFoundInTheGradientThatItSpoils) {
  const auto run = train_on_a_raw_read(-1);
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << run;
  EXPECT_EQ(law.findings[0].cause, Cause::kAsyncNoWait);
  EXPECT_EQ(law.findings[0].message.rfind("a gradient uses a value", 0), 0U)
      << law.findings[0].message;
}

TEST(InFlightTest, AHandleDroppedWithoutAWaitIsFound) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<float> data(4, 1.0F);
    { const Work work = context.world().all_reduce(Memory::of(std::span(data))); }
    context.world().barrier().wait_or_throw();
  });
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << run;
  EXPECT_EQ(law.findings[0].field, "wait");
  EXPECT_EQ(law.findings[0].cause, Cause::kAsyncNoWait);
  EXPECT_EQ(law.findings[0].ranks.size(), 2U);
}

TEST(InFlightTest, TwoCallsOnOverlappingMemoryAreFoundAndMeetInIt) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<float> data{1.0F, 2.0F, 3.0F};
    const std::span all(data);
    const Work first = context.world().all_reduce(Memory::of(all));
    const Work second = context.world().all_reduce(Memory::of(all.subspan(1)));
    first.wait_or_throw();
    second.wait_or_throw();
    EXPECT_EQ(data, (std::vector<float>{2.0F, 8.0F, 12.0F}));
  });
  const LawResult& law = in_flight_law(run.report);
  ASSERT_FALSE(law.findings.empty()) << run;
  for (const Finding& finding : law.findings) EXPECT_EQ(finding.seq, 0);
}

TEST(InFlightTest, TwoCallsThatWriteOneTensorAreFoundAsTheSecondIsPosted) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    const Tensor one = ones(context);
    const Tensor two = ones(context);
    const Tensor all = Tensor::zeros(context.runtime(), {2 * one.n_elems()}, one.dtype());
    const Work first = context.world().all_gather_into_tensor(Memory::of(all), Memory::of(one));
    const Work second = context.world().all_gather_into_tensor(Memory::of(all), Memory::of(two));
    first.wait_or_throw();
    second.wait_or_throw();
  });
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << run;
  EXPECT_EQ(law.findings[0].ranks.size(), 2U);
  EXPECT_EQ(law.findings[0].field, "write");
  EXPECT_EQ(law.findings[0].message.rfind("writes (all_gather)", 0), 0U) << law.findings[0].message;
}

// Healthy programs that come close to each of the mistakes above.
TEST(InFlightTest, RawMemoryOfACorrectProgramIsLeftAlone) {
  const auto body = [](RankContext& context) {
    const auto rank = static_cast<float>(context.rank());
    std::vector<float> mine(2, rank);
    std::vector<float> all(6);
    const Memory whole = Memory::of(std::span(all));
    Work gather = context.world().all_gather_into_tensor(whole, Memory::of(std::span(mine)));
    const float read_of_what_is_only_read = mine[0];
    gather.wait_or_throw();
    EXPECT_EQ(all, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    // In place: a rank's part of the output is its input.
    const Memory part = whole.slice(2 * static_cast<std::int64_t>(context.rank()), 2);
    context.world().all_gather_into_tensor(whole, part).wait_or_throw();
    EXPECT_EQ(all, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    // Two calls side by side on parts that do not overlap, waited for in the other order.
    const Work left = context.world().all_reduce(whole.slice(0, 3));
    const Work right = context.world().all_reduce(whole.slice(3, 3));
    right.wait_or_throw();
    left.wait_or_throw();
    EXPECT_EQ(all, (std::vector<float>{0, 0, 3, 3, 6, 6}));
    // Asked for until it is there; hops of messages need time to pass meanwhile.
    const Work asked = context.world().all_reduce(Memory::of(std::span(mine)));
    while (!asked.is_completed()) context.host().sleep(Duration{1'000});
    mine[0] += read_of_what_is_only_read;
    EXPECT_EQ(mine[1], 3.0F);
    if (context.rank() == 0) {
      (void)context.world().send(whole.slice(0, 2), 1);  // Nothing is written: it may go.
    } else if (context.rank() == 1) {
      context.world().recv(whole.slice(0, 2), 0).wait_or_throw();
    }
    context.world().barrier().wait_or_throw();
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const sim::Fidelity fidelity : every<sim::Fidelity>()) {
      const auto run = run_ranks(
          {.ranks = 3, .schedule_seed = seed, .strategy = "random", .fidelity = fidelity}, body);
      EXPECT_TRUE(run.ok()) << run;
    }
  }
}

TEST(InFlightTest, AnExceptionThatPassesDropsHandlesWithoutAFinding) {
  const auto run = run_ranks({.ranks = 2, .rethrow = false}, [](RankContext& context) {
    std::vector<float> data(4, 1.0F);
    const Work work = context.world().all_reduce(Memory::of(std::span(data)));
    throw std::runtime_error("stopped");
  });
  EXPECT_TRUE(in_flight_law(run.report).findings.empty()) << run;
}

TEST(InFlightTest, NothingIsWatchedWithoutTheLaw) {
  const auto run = run_ranks({.ranks = 2, .laws = {"progress"}}, [](RankContext& context) {
    EXPECT_EQ(context.runtime().in_flight(), nullptr);
    const Tensor data = ones(context);
    const Work work = context.world().all_reduce(Memory::of(data));
    (void)data.at(0);
    work.wait_or_throw();
  });
  EXPECT_TRUE(run.ok());
}

}  // namespace lockstep::testing
