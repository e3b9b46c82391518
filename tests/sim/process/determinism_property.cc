// Drawn programs on ranks that compute elsewhere: neither who is faster nor which schedule is drawn
// changes a result, and it is the result of ordinary fibers.
#include <algorithm>
#include <numeric>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/strategies.h"

#include "tests/sim/process/coordinated.h"

namespace lockstep::sim {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the clients' words.

/// One call that every member of a group makes.
struct Step {
  enum class Kind : std::uint8_t { kAllReduce, kBroadcast, kAllGather, kMessage };

  Kind kind = Kind::kAllReduce;
  std::size_t group = 0;
  std::int32_t root = 0;  ///< Of a broadcast; a message goes from it to the next member.
  std::int32_t n = 1;
};

struct Drawn {
  std::int32_t n_ranks = 1;
  std::vector<std::vector<std::int32_t>> groups;  ///< The first holds all ranks.
  std::vector<Step> steps;
  std::size_t n_under_way = 1;  ///< Calls are waited for when this many are, last first.
};

Drawn any_program() {
  Drawn drawn;
  drawn.n_ranks = *rc::gen::inRange(2, 5);
  std::vector<std::int32_t> all(static_cast<std::size_t>(drawn.n_ranks));
  std::iota(all.begin(), all.end(), 0);
  drawn.groups.push_back(all);
  const int n_groups = *rc::gen::inRange(0, 3);
  for (int g = 0; g < n_groups; ++g) {
    std::vector<std::int32_t> members =
        *rc::gen::container<std::vector<std::int32_t>>(rc::gen::inRange(0, drawn.n_ranks));
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    if (members.size() >= 2) drawn.groups.push_back(members);
  }
  const int n_steps = *rc::gen::inRange(1, 10);
  for (int s = 0; s < n_steps; ++s) {
    Step step;
    step.kind = static_cast<Step::Kind>(*rc::gen::inRange(0, 4));
    step.group = *rc::gen::inRange<std::size_t>(0, drawn.groups.size());
    step.root = *rc::gen::inRange(0, static_cast<int>(drawn.groups[step.group].size()));
    step.n = *rc::gen::inRange(1, 6);
    drawn.steps.push_back(step);
  }
  drawn.n_under_way = *rc::gen::inRange<std::size_t>(1, 4);
  return drawn;
}

// Tenths round, so that the order of additions shows.
float value_of(std::size_t step, std::int32_t rank, std::int32_t i) {
  return 0.1F * static_cast<float>(step + 1) + 0.7F * static_cast<float>(rank) +
         0.01F * static_cast<float>(i);
}

std::vector<float> data_of(std::size_t step, std::int32_t rank, std::int32_t n) {
  std::vector<float> data;
  for (std::int32_t i = 0; i < n; ++i) data.push_back(value_of(step, rank, i));
  return data;
}

using Results = std::vector<std::vector<float>>;  // By rank.

/// The place of `rank` in the group of a step, or -1.
std::int32_t place_in(const Drawn& drawn, const Step& step, std::int32_t rank) {
  const std::vector<std::int32_t>& members = drawn.groups[step.group];
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<std::int32_t>(found - members.begin());
}

/// What a step is for one member: null where it has nothing to do.
std::optional<PostRequest> request_of(RankClient& client,
                                      const Drawn& drawn,
                                      std::size_t s,
                                      std::int32_t handle,
                                      std::vector<Floats>& outputs) {
  const Step& step = drawn.steps[s];
  const std::int32_t place = place_in(drawn, step, client.rank());
  const auto size = static_cast<std::int32_t>(drawn.groups[step.group].size());
  const Floats own = client.floats(data_of(s, client.rank(), step.n));
  const std::int32_t next = (step.root + 1) % size;
  switch (step.kind) {
    case Step::Kind::kAllReduce:
      outputs.push_back(own);
      return all_reduce(handle, own);
    case Step::Kind::kBroadcast:
      outputs.push_back(own);
      return broadcast(handle, own, step.root);
    case Step::Kind::kAllGather: {
      const auto n = own.values.size() * static_cast<std::size_t>(size);
      outputs.push_back(client.floats(std::vector<float>(n)));
      PostRequest request = exchange(handle, CollectiveOp::kAllGather, {own}, {outputs.back()});
      request.flags = static_cast<std::uint8_t>(PostFlag::kTensor);
      return request;
    }
    case Step::Kind::kMessage:
      if (place == step.root) return send_to(handle, own, next, step.n);
      if (place != next) return std::nullopt;
      outputs.push_back(own);
      return recv_from(handle, own, step.root, step.n);
  }
  return std::nullopt;
}

void run_drawn(RankClient& client, const Drawn& drawn, std::vector<float>& result) {
  client.start();
  std::vector<std::int32_t> handles;
  for (std::size_t g = 0; g < drawn.groups.size(); ++g) {
    const std::vector<std::int32_t>& members = drawn.groups[g];
    const bool member = std::find(members.begin(), members.end(), client.rank()) != members.end();
    handles.push_back(member ? RankClient::handle(client.open(std::to_string(g), members)) : -1);
  }
  std::vector<std::uint32_t> under_way;
  std::vector<Floats> outputs;
  for (std::size_t s = 0; s < drawn.steps.size(); ++s) {
    const Step& step = drawn.steps[s];
    if (place_in(drawn, step, client.rank()) < 0) continue;
    const auto request = request_of(client, drawn, s, handles[step.group], outputs);
    if (request) under_way.push_back(client.post(*request, static_cast<std::int32_t>(s)));
    client.log("step " + std::to_string(s));
    if (under_way.size() < drawn.n_under_way) continue;
    for (; !under_way.empty(); under_way.pop_back()) {
      if (!client.wait(under_way.back()).ok()) throw std::runtime_error("a call failed");
    }
  }
  for (; !under_way.empty(); under_way.pop_back()) {
    if (!client.wait(under_way.back()).ok()) throw std::runtime_error("a call failed");
  }
  for (const Floats& output : outputs)
    result.insert(result.end(), output.values.begin(), output.values.end());
}

struct Ran {
  Results results;
  Coordination found;
};

Ran on_threads(const Drawn& drawn, const CoordinatorOptions& options, std::uint64_t delays = 0) {
  Ran ran;
  ran.results.resize(static_cast<std::size_t>(drawn.n_ranks));
  ran.found = coordinate_threads(drawn.n_ranks, options, [&](RankClient& client) {
    std::uint64_t state = delays * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(client.rank());
    if (delays != 0) {
      client.before_send = [state]() mutable {
        state = state * 6364136223846793005U + 1442695040888963407U;
        if (((state >> 33U) & 3U) == 0) ::usleep(static_cast<useconds_t>((state >> 40U) % 400));
      };
    }
    run_drawn(client, drawn, ran.results[static_cast<std::size_t>(client.rank())]);
  });
  return ran;
}

/// One step of one fiber, waited for at once; what it gets is appended.
void take_step(const Drawn& drawn,
               std::size_t s,
               ProcessGroup& group,
               std::int32_t rank,
               std::vector<float>& result) {
  const Step& step = drawn.steps[s];
  const std::int32_t next = (step.root + 1) % group.size();
  std::vector<float> own = data_of(s, rank, step.n);
  std::vector<float> whole(own.size() * static_cast<std::size_t>(group.size()));
  const Memory data = Memory::of(std::span(own));
  Work work;
  switch (step.kind) {
    case Step::Kind::kAllReduce:
      work = group.all_reduce(data);
      break;
    case Step::Kind::kBroadcast:
      work = group.broadcast(data, step.root);
      break;
    case Step::Kind::kAllGather:
      work = group.all_gather_into_tensor(Memory::of(std::span(whole)), data);
      break;
    case Step::Kind::kMessage:
      if (group.rank() == step.root) work = group.send(data, next, step.n);
      if (group.rank() == next) work = group.recv(data, step.root, step.n);
      break;
  }
  if (!work.valid()) return;
  work.wait_or_throw();
  if (step.kind == Step::Kind::kMessage && group.rank() == step.root) return;
  const std::vector<float>& got = step.kind == Step::Kind::kAllGather ? whole : own;
  result.insert(result.end(), got.begin(), got.end());
}

/// The same calls made on fibers of this thread, directly.
Results on_fibers(const Drawn& drawn) {
  Results results(static_cast<std::size_t>(drawn.n_ranks));
  World world;
  SimGroups groups(world, {});
  const auto kernels = make_cpu_kernels();
  Pool pool;
  const auto strategy = make_round_robin();
  const WorldResult ran = world.run({.n_ranks = drawn.n_ranks}, *strategy, [&](RankHandle& handle) {
    Runtime runtime(pool, *kernels, handle);
    const std::int32_t rank = to_int(handle.rank());
    std::vector<std::unique_ptr<ProcessGroup>> own(drawn.groups.size());
    for (std::size_t s = 0; s < drawn.steps.size(); ++s) {
      const std::size_t g = drawn.steps[s].group;
      if (place_in(drawn, drawn.steps[s], rank) < 0) continue;
      if (own[g] == nullptr) {
        auto opened = groups.open(handle, runtime, std::to_string(g), drawn.groups[g]);
        own[g] = std::move(opened).value();
      }
      take_step(drawn, s, *own[g], rank, results[to_index(handle.rank())]);
    }
  });
  RC_ASSERT(!ran.stuck && !ran.first_failure);
  return results;
}

RC_GTEST_PROP(ProcessDeterminismProperty, NoScheduleChangesAResult, ()) {
  const Drawn drawn = any_program();
  const Results expected = on_fibers(drawn);
  CoordinatorOptions options;
  const Ran in_rounds = on_threads(drawn, options);
  RC_ASSERT(in_rounds.found.outcome == CoordinationOutcome::kOk);
  RC_ASSERT(in_rounds.results == expected);
  options.serial = true;
  options.strategy = "random";
  for (options.seed = 1; options.seed <= 3; ++options.seed) {
    const Ran serial = on_threads(drawn, options);
    RC_ASSERT(serial.found.outcome == CoordinationOutcome::kOk);
    RC_ASSERT(serial.results == expected);
  }
}

/// What ranks said and when, in the order in which it was noticed.
std::vector<std::string> history_of(const Coordination& found) {
  std::vector<std::string> history;
  for (const LogLine& line : found.log) {
    history.push_back(std::to_string(to_int(line.rank)) + " at " + std::to_string(line.time.ns) +
                      ": " + line.text);
  }
  return history;
}

RC_GTEST_PROP(ProcessDeterminismProperty, TheOrderOfArrivalChangesNothing, ()) {
  const Drawn drawn = any_program();
  CoordinatorOptions options;
  options.strategy = "random";
  options.seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
  options.serial = *rc::gen::arbitrary<bool>();
  const Ran first = on_threads(drawn, options);
  RC_ASSERT(first.found.outcome == CoordinationOutcome::kOk);
  for (std::uint64_t delays = 1; delays <= 2; ++delays) {
    const Ran late = on_threads(drawn, options, delays);
    RC_ASSERT(late.results == first.results);
    RC_ASSERT(history_of(late.found) == history_of(first.found));
    RC_ASSERT(late.found.n_requests == first.found.n_requests);
  }
}

// The first of all senders, whichever it is: what a program can see of the schedule.
std::vector<float> senders_in_order(const CoordinatorOptions& options,
                                    std::uint64_t delays,
                                    std::string* token = nullptr) {
  constexpr int kSenders = 4;
  std::vector<float> order;
  const Coordination found = coordinate_threads(kSenders + 1, options, [&](RankClient& client) {
    if (delays != 0 && client.rank() > 0) {
      const auto turn = (static_cast<std::uint64_t>(client.rank()) * 3 + delays) % kSenders;
      client.before_send = [turn] { ::usleep(static_cast<useconds_t>(turn * 500)); };
    }
    const std::int32_t group = client.join();
    if (client.rank() > 0) {
      const Floats own = client.floats({static_cast<float>(client.rank())});
      if (!client.call(send_to(group, own, 0)).ok()) throw std::runtime_error("not sent");
      return;
    }
    for (int i = 0; i < kSenders; ++i) {
      PostRequest any = recv_from(group, client.floats({0}), -1);
      any.flags = static_cast<std::uint8_t>(PostFlag::kAnySource);
      order.push_back(static_cast<float>(client.call(any).peer));
    }
  });
  if (token != nullptr) *token = found.token;
  return order;
}

TEST(ProcessDeterminismTest, AReceiveFromAnySourceDependsOnTheScheduleAndNotOnTheMachine) {
  std::set<std::vector<float>> orders;
  CoordinatorOptions options;
  options.strategy = "random";
  for (options.seed = 1; options.seed <= 8; ++options.seed) {
    const std::vector<float> order = senders_in_order(options, 0);
    orders.insert(order);
    for (std::uint64_t delays = 1; delays <= 3; ++delays) {
      EXPECT_EQ(senders_in_order(options, delays), order) << "seed " << options.seed;
    }
  }
  EXPECT_GT(orders.size(), 1U) << "the schedule is one that a seed chooses";
}

TEST(ProcessDeterminismTest, TheTokenOfARandomScheduleMakesItAgain) {
  std::set<std::string> tokens;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CoordinatorOptions options;
    options.serial = true;
    options.strategy = "random";
    options.seed = seed;
    std::string token;
    const std::vector<float> order = senders_in_order(options, 0, &token);
    ASSERT_TRUE(token.starts_with('@')) << token;
    tokens.insert(token);
    options.strategy = token;
    std::string again;
    EXPECT_EQ(senders_in_order(options, 2, &again), order) << token;
    EXPECT_EQ(again, token);
  }
  EXPECT_GT(tokens.size(), 1U);
}

}  // namespace
}  // namespace lockstep::sim
