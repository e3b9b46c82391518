// A network that alters one bit is noticed, with the rank, the element and both values.
#include "lockstep/real/group/checked_arrivals.h"

#include <numeric>

#include "lockstep/real/gloo/detail/connection.h"
#include "lockstep/real/group/connected_group.h"

#include "tests/support/altering_connection.h"
#include "tests/support/gloo_ranks.h"

namespace lockstep {
namespace {

using testing::Alteration;
using testing::AlteringConnection;
using testing::run_processes;
using testing::TempFolder;
using testing::TestRuntime;
using testing::Traffic;
using Where = Alteration::Where;

constexpr std::int64_t kCount = 8;

/// A world over Gloo whose network alters what it carries.
struct AlteringWorld {
  std::int32_t n_ranks = 3;
  Alteration alteration{};
  bool checked = true;
};

void run_altering_ranks(const AlteringWorld& world,
                        const std::function<void(ProcessGroup&, const Traffic&)>& program) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(world.n_ranks, [&](int rank) {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(world.n_ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    const peers::Membership member = {.rank = rank,
                                      .size = world.n_ranks,
                                      .folder = folder.path(),
                                      .name = "world",
                                      .timeout = std::chrono::seconds(20),
                                      .world_ranks = ranks};
    auto opened = gloo::open_connection(member, "127.0.0.1");
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    Traffic traffic;
    std::shared_ptr<peers::Connection> connection = std::make_shared<AlteringConnection>(
        std::move(opened).value(), rank, world.alteration, &traffic);
    if (world.checked) {
      auto checked = peers::check_arrivals(
          connection, member, {.order = ReductionOrder::kGlooRing, .make_kernels = [] {
                                 return make_cpu_kernels();
                               }});
      ASSERT_TRUE(checked.ok()) << checked.error().text();
      connection = std::move(checked).value();
    }
    TestRuntime runtime;
    const auto group = peers::make_connected_group(
        runtime.runtime, {"gloo", "gloo-ring"}, member, std::move(connection));
    program(*group, traffic);
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<std::size_t>(world.n_ranks), 0));
}

/// One operation of every kind, over vectors that rank r fills with the f32 number of r.
struct Kind {
  std::string name;
  std::function<Work(ProcessGroup&, std::vector<std::vector<float>>&)> post;
  bool reduces = false;

  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }
};

float number_of(std::int32_t rank) { return static_cast<float>(rank + 1); }

std::vector<Memory> memories(std::vector<std::vector<float>>& buffers) {
  std::vector<Memory> list;
  for (std::vector<float>& buffer : buffers) list.push_back(Memory::of(std::span(buffer)));
  return list;
}

/// The buffers of an operation: n inputs, then n outputs.
std::span<const Memory> inputs_of(const std::vector<Memory>& all) {
  return std::span(all).first(all.size() / 2);
}

std::span<const Memory> outputs_of(const std::vector<Memory>& all) {
  return std::span(all).last(all.size() / 2);
}

constexpr std::int32_t kRoot = 1;

std::vector<Kind> kinds() {
  const auto one = [](auto call, bool reduces, std::string name) {
    return Kind{std::move(name),
                [call](ProcessGroup& group, std::vector<std::vector<float>>& buffers) {
                  return call(group, memories(buffers));
                },
                reduces};
  };
  using List = std::vector<Memory>;
  return {
      one([](ProcessGroup& g, const List& m) { return g.all_reduce(m[0]); }, true, "AllReduce"),
      one([](ProcessGroup& g, const List& m) { return g.reduce(m[0], kRoot); }, true, "Reduce"),
      one([](ProcessGroup& g, const List& m) { return g.reduce_scatter(m.back(), inputs_of(m)); },
          true,
          "ReduceScatter"),
      one([](ProcessGroup& g, const List& m) { return g.broadcast(m[0], kRoot); },
          false,
          "Broadcast"),
      one([](ProcessGroup& g, const List& m) { return g.all_gather(outputs_of(m), m[0]); },
          false,
          "AllGather"),
      one(
          [](ProcessGroup& g, const List& m) {
            const bool root = g.rank() == kRoot;
            return g.gather(root ? outputs_of(m) : std::span<const Memory>(), m[0], kRoot);
          },
          false,
          "Gather"),
      one(
          [](ProcessGroup& g, const List& m) {
            const bool root = g.rank() == kRoot;
            return g.scatter(m.back(), root ? inputs_of(m) : std::span<const Memory>(), kRoot);
          },
          false,
          "Scatter"),
      one([](ProcessGroup& g, const List& m) { return g.all_to_all(outputs_of(m), inputs_of(m)); },
          false,
          "AllToAll"),
  };
}

std::vector<std::vector<float>> buffers_for(const ProcessGroup& group) {
  const auto n = static_cast<std::size_t>(group.size());
  std::vector<std::vector<float>> buffers(2 * n, std::vector<float>(kCount));
  for (std::size_t i = 0; i < n; ++i) {
    buffers[i].assign(kCount, number_of(to_int(group.world_rank(group.rank()))));
  }
  return buffers;
}

class CheckedArrivalsTest : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds,
                         CheckedArrivalsTest,
                         ::testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The root is rank 1. It receives in a gather and a reduce; rank 1 receives in all the others, too.
TEST_P(CheckedArrivalsTest, ABitThatFlipsOnArrivalIsNamedOnEveryRank) {
  const Alteration flipped = {.where = Where::kReceived, .rank = 1, .element = 5};
  run_altering_ranks({.alteration = flipped}, [](ProcessGroup& group, const Traffic&) {
    auto buffers = buffers_for(group);
    const Work work = GetParam().post(group, buffers);
    EXPECT_EQ(work.wait(), CommStatus::kMismatch);
    const std::string words = work.detail();
    EXPECT_TRUE(contains(words, "what arrived is not what was sent in ")) << words;
    EXPECT_TRUE(contains(words, " 0 of group 0 (")) << words;
    EXPECT_TRUE(contains(words, "checked_arrivals_test.cc:")) << words;
    EXPECT_TRUE(contains(words, ": rank 1 ")) << words;
    EXPECT_TRUE(contains(words, "as element 5")) << words;
    if (GetParam().reduces) {
      EXPECT_TRUE(contains(words, "6.0000005 (0x40c00001)")) << words;
      EXPECT_TRUE(contains(words, "the contributions of all ranks give 6 (0x40c00000)")) << words;
      return;
    }
    // From rank 0, or from the root where it alone sends.
    const bool root_sends = GetParam().name == "Broadcast" || GetParam().name == "Scatter";
    EXPECT_TRUE(contains(words, root_sends ? "got 2.0000002 (0x40000001)" : "(0x3f800001)"))
        << words;
    EXPECT_TRUE(contains(words,
                         root_sends ? "from rank 1, which sent 2 (0x40000000)"
                                    : "from rank 0, which sent 1 (0x3f800000)"))
        << words;
  });
}

// What rank 2 gives is altered before it goes out: all other ranks get the same wrong number.
TEST_P(CheckedArrivalsTest, ABitThatFlipsOnTheWayOutIsNoticed) {
  const std::int32_t sender =
      GetParam().name == "Broadcast" || GetParam().name == "Scatter" ? kRoot : 2;
  const bool parts = GetParam().name == "ReduceScatter" || GetParam().name == "Scatter" ||
                     GetParam().name == "AllToAll";
  const Alteration flipped = {.where = Where::kSent,
                              .rank = sender,
                              .buffer = parts ? std::size_t{1} : std::size_t{0},
                              .element = 3,
                              .bit = 12};  // A sum would round the lowest away.
  run_altering_ranks({.alteration = flipped}, [](ProcessGroup& group, const Traffic&) {
    auto buffers = buffers_for(group);
    const Work work = GetParam().post(group, buffers);
    EXPECT_EQ(work.wait(), CommStatus::kMismatch);
    EXPECT_TRUE(contains(work.detail(), "as element 3")) << work.detail();
  });
}

// The group is in step afterwards, and the same network is not noticed without the comparison.
TEST_P(CheckedArrivalsTest, WithoutItTheSameAlterationPasses) {
  const Alteration flipped = {.where = Where::kReceived, .rank = 1, .element = 5};
  run_altering_ranks({.alteration = flipped, .checked = false},
                     [](ProcessGroup& group, const Traffic& traffic) {
                       auto buffers = buffers_for(group);
                       EXPECT_EQ(GetParam().post(group, buffers).wait(), CommStatus::kOk);
                       EXPECT_EQ(traffic.splits, 0);
                     });
}

TEST_P(CheckedArrivalsTest, AHealthyNetworkIsQuiet) {
  run_altering_ranks({}, [](ProcessGroup& group, const Traffic& traffic) {
    for (int round = 0; round < 3; ++round) {
      auto buffers = buffers_for(group);
      const Work work = GetParam().post(group, buffers);
      EXPECT_EQ(work.wait(), CommStatus::kOk) << work.detail();
    }
    EXPECT_EQ(traffic.splits, 1) << "one more connection, once";
  });
}

TEST(CheckedArrivals, TheGroupStaysInStepAfterADifference) {
  const Alteration flipped = {.where = Where::kReceived, .rank = 2, .element = 5};
  run_altering_ranks({.alteration = flipped}, [](ProcessGroup& group, const Traffic&) {
    std::vector<float> long_one(kCount, 1.0F);
    EXPECT_EQ(group.all_reduce(Memory::of(std::span(long_one))).wait(), CommStatus::kMismatch);
    // Too short to have an element 5.
    std::vector<float> short_one(2, 1.0F);
    EXPECT_EQ(group.all_reduce(Memory::of(std::span(short_one))).wait(), CommStatus::kOk);
    EXPECT_EQ(short_one[1], 3.0F);
  });
}

TEST(CheckedArrivals, AGroupOfSomeRanksIsComparedAndNamesTheWorldsRanks) {
  // Rank 1 of the group of ranks 2 and 0 is rank 0 of the world.
  const Alteration flipped = {.where = Where::kReceived, .rank = 1, .element = 5};
  run_altering_ranks({.alteration = flipped}, [](ProcessGroup& group, const Traffic&) {
    const std::vector<std::int32_t> members = {2, 0};
    const auto part = group.split(members);
    if (part == nullptr) return;
    auto buffers = buffers_for(*part);
    const Work work = part->all_reduce(Memory::of(std::span(buffers[0])));
    EXPECT_EQ(work.wait(), CommStatus::kMismatch);
    EXPECT_TRUE(contains(work.detail(), "all_reduce 0 of group 1 (")) << work.detail();
    EXPECT_TRUE(contains(work.detail(), "rank 0 has 4.0000005 (0x40800001) as element 5"))
        << work.detail();
  });
}

TEST(CheckedArrivals, AnAlteredMessageIsNoticedByItsReceiver) {
  const Alteration flipped = {.where = Where::kReceived, .rank = 1, .element = 9};
  run_altering_ranks(
      {.n_ranks = 2, .alteration = flipped}, [](ProcessGroup& group, const Traffic&) {
        std::vector<float> data(kCount, number_of(group.rank()));
        const Memory memory = Memory::of(std::span(data));
        if (group.rank() == 0) {
          EXPECT_EQ(group.send(memory, 1).wait(), CommStatus::kOk);
          EXPECT_EQ(group.send(memory, 1).wait(), CommStatus::kOk);
          return;
        }
        const Work known = group.recv(memory, 0);
        EXPECT_EQ(known.wait(), CommStatus::kMismatch);
        EXPECT_TRUE(contains(known.detail(), "in recv 0 of group 0 (")) << known.detail();
        EXPECT_TRUE(contains(known.detail(), "rank 1 got 8 f32 with the digest "))
            << known.detail();
        EXPECT_TRUE(contains(known.detail(), "from rank 0, which sent them")) << known.detail();
        const Work any = group.recv_any_source(memory);
        EXPECT_EQ(any.wait(), CommStatus::kMismatch);
        EXPECT_TRUE(contains(any.detail(), "from rank 0, which sent them")) << any.detail();
      });
}

// Sums of NaN and of opposite infinities, and of both zeros: no two orders of the same hardware
// promise the bits of a NaN.
TEST(CheckedArrivals, NotANumberIsNoDifference) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    run_altering_ranks({}, [dtype](ProcessGroup& group, const Traffic&) {
      const double infinity = std::numeric_limits<double>::infinity();
      const double nan = std::numeric_limits<double>::quiet_NaN();
      std::vector<double> values(37, group.rank() == 0 ? infinity : -infinity);
      for (std::size_t i = 0; i < values.size(); i += 3) values[i] = group.rank() == 1 ? nan : -nan;
      for (std::size_t i = 1; i < values.size(); i += 3) values[i] = group.rank() == 1 ? 0.0 : -0.0;
      const Tensor data = Tensor::of(group.runtime(), {37}, dtype, values);
      const Work work = group.all_reduce(Memory::of(data));
      EXPECT_EQ(work.wait(), CommStatus::kOk) << work.detail();
    });
  }
}

// A number where a NaN should be is one, though: rank 1's NaN leaves it as infinity.
TEST(CheckedArrivals, ANumberInPlaceOfNotANumberIsADifference) {
  const Alteration flipped = {.where = Where::kSent, .rank = 1, .element = 0};
  run_altering_ranks(
      {.n_ranks = 2, .alteration = flipped}, [](ProcessGroup& group, const Traffic&) {
        std::vector<std::uint16_t> bits = {std::uint16_t(group.rank() == 1 ? 0x7F81 : 0)};
        const Work work = group.all_reduce({bits.data(), 1, DType::kBF16});
        EXPECT_EQ(work.wait(), CommStatus::kMismatch);
        EXPECT_TRUE(contains(work.detail(), "has inf (0x7f80) as element 0")) << work.detail();
        EXPECT_TRUE(contains(work.detail(), "give nan (0x7f")) << work.detail();
      });
}

// Several slices, the last one short, and a change in the last element of each.
TEST(CheckedArrivals, LargeReductionsAreComparedToTheirLastElement) {
  constexpr std::int64_t kLarge = 3 * 262'144 + 1001;
  for (const std::int64_t element : {std::int64_t{524'287}, std::int64_t{524'288}, kLarge - 1}) {
    const Alteration flipped = {.where = Where::kReceived, .rank = 0, .element = element};
    run_altering_ranks(
        {.n_ranks = 2, .alteration = flipped}, [&](ProcessGroup& group, const Traffic&) {
          std::vector<float> data(kLarge);
          for (std::size_t i = 0; i < data.size(); ++i) {
            data[i] = 1.0F / static_cast<float>(3 + i + static_cast<std::size_t>(group.rank()));
          }
          const Work work = group.all_reduce(Memory::of(std::span(data)));
          EXPECT_EQ(work.wait(), CommStatus::kMismatch);
          EXPECT_TRUE(contains(work.detail(), "as element " + std::to_string(element) + ","))
              << work.detail();
        });
  }
}

}  // namespace
}  // namespace lockstep
