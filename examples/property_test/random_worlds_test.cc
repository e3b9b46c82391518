// Random worlds and random training jobs in a user's own properties. Link
// lockstep::lockstep and rapidcheck.
#include <cstdint>
#include <lockstep/rapidcheck.h>
#include <span>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

RC_GTEST_PROP(RandomWorlds, ABroadcastReachesEveryRank, (std::uint16_t value)) {
  const auto world = *lockstep::gen::world(1, 9);

  const auto run = lockstep::run_ranks(world, [value](lockstep::RankContext& context) {
    float data = context.rank() == 0 ? value : -1.0F;
    const auto memory = lockstep::Memory::of(std::span<float>(&data, 1));
    context.world().broadcast(memory, 0).wait_or_throw();
    return data;
  });

  RC_ASSERT_LAWS_HOLD(run);
  for (const auto& got : run.results) RC_ASSERT(got == static_cast<float>(value));
}

RC_GTEST_PROP(RandomJobs, NoLawComplainsOfACorrectOne, ()) {
  const auto job = *lockstep::gen::correct_job();

  RC_ASSERT(lockstep::complaint_about(job) == "");
}

}  // namespace
