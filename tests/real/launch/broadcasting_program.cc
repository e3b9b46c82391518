// Rank 0 broadcasts 12345; every rank prints what it has, or why the broadcast failed. With the
// argument "check" the program itself asks for the comparison.
#include <cstdio>
#include <string_view>
#include <vector>

#include "lockstep/run.h"

int main(int argc, char** argv) {
  lockstep::RunOptions options{.ranks = 2};
  options.check_arrivals = argc > 1 && std::string_view(argv[1]) == "check";
  const auto run = lockstep::run_ranks(options, [](lockstep::RankContext& context) {
    std::vector<float> data(4, context.rank() == 0 ? 12345.0F : 0.0F);
    const lockstep::Work work = context.world().broadcast(lockstep::Memory::of(std::span(data)), 0);
    const bool well = work.wait() == lockstep::CommStatus::kOk;
    std::printf("%s\n", well ? "the broadcast succeeded" : work.detail().c_str());
    return static_cast<double>(data[0]);
  });
  return run.ok() ? 0 : 1;
}
