// Runs planted bugs and drawn worlds in their own process.
//
//   schedule_probe replay BUG SCHEDULE    "ok", or what failed and exit code 1
//   schedule_probe digests FIRST COUNT    one line per world: seed, trace digest, result digest
//   schedule_probe by-process FIRST COUNT  the same, but schedules depend on the process's number
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "lockstep/base/text.h"
#include "lockstep/sim/explore/explore.h"

#include "tests/sim/explore/programs.h"

namespace lockstep::sim {
namespace {

int replay(std::string_view name, const char* schedule) {
  for (const testing::PlantedBug& bug : testing::kPlantedBugs) {
    if (bug.name != name) continue;
    SessionOptions options = testing::bare(bug.ranks);
    options.strategy = schedule;
    Session session;
    const auto run = session.run(options, bug.body);
    if (!run.ok()) {
      std::printf("%s\n", run.error().text().c_str());
      return 2;
    }
    const Judgement judgement = judge_by_report(run.value());
    std::printf("%s\n", judgement.failure.empty() ? "ok" : judgement.failure.c_str());
    return judgement.failure.empty() ? 0 : 1;
  }
  return 2;
}

testing::SmallJob drawn_job(std::uint64_t seed) {
  const auto draw = [seed](std::uint64_t what, std::int64_t n) {
    return static_cast<std::int64_t>(mix64(seed * 16 + what) % static_cast<std::uint64_t>(n));
  };
  return {.ranks = static_cast<std::int32_t>(1 + draw(0, 8)),
          .width = 1 + draw(1, 6),
          .layers = 1 + draw(2, 3),
          .steps = 1 + draw(3, 3),
          .view = draw(4, 2) == 1,
          .init_sync = draw(5, 4) != 0,
          .seed = seed};
}

int digests(std::uint64_t first, std::uint64_t count, std::uint64_t disturbance) {
  Session session;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const testing::SmallJob job = drawn_job(seed);
    SessionOptions options = testing::digested(job.ranks);
    options.strategy = seed % 2 == 0 ? "random" : "pct:depth=3,steps=200";
    options.schedule_seed = seed + disturbance;
    const auto run =
        session.run(options, [&](RankContext& context) { testing::train(job, context); });
    if (!run.ok() || !run.value().report.ok()) return 1;
    std::printf("%llu %s %s\n",
                static_cast<unsigned long long>(seed),
                hex64(run.value().report.trace_digest).c_str(),
                hex64(run.value().report.result_digest).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "replay") {
    return lockstep::sim::replay(argv[2], argv[3]);
  }
  const std::string_view word = argc == 4 ? argv[1] : "";
  if (word != "digests" && word != "by-process") return 2;
  return lockstep::sim::digests(std::strtoull(argv[2], nullptr, 10),
                                std::strtoull(argv[3], nullptr, 10),
                                word == "by-process" ? static_cast<std::uint64_t>(getpid()) : 0);
}
