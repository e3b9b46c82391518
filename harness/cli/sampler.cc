// `lockstep sampler`: which samples each rank gets.
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMostDealt = 1'000'000'000'000;  // Of samples and of ranks.

void print(const data::DistributedSampler& sampler, Terminal& terminal) {
  std::vector<std::int64_t> indices;
  sampler.indices(indices);
  terminal.out << "rank " << sampler.options().rank << ":";
  for (const std::int64_t index : indices) terminal.out << " " << index;
  terminal.out << "\n";
}

}  // namespace

ExitCode sampler(const SamplerArguments& arguments, Terminal& terminal) {
  if (arguments.replicas < 1 || arguments.replicas > kMostDealt) {
    return bad_input(terminal,
                     "lockstep sampler: --replicas is " + std::to_string(arguments.replicas) +
                         "; it must be between 1 and " + std::to_string(kMostDealt));
  }
  if (arguments.size > kMostDealt) {
    return bad_input(terminal,
                     "lockstep sampler: --size is " + std::to_string(arguments.size) +
                         "; it must be at most " + std::to_string(kMostDealt));
  }
  data::DistributedSamplerOptions options = {.size = arguments.size,
                                             .replicas = arguments.replicas,
                                             .rank = 0,
                                             .shuffle = arguments.shuffle,
                                             .seed = arguments.seed,
                                             .drop_last = arguments.drop_last};
  const std::int64_t first = arguments.rank.value_or(0);
  const std::int64_t last = arguments.rank.value_or(arguments.replicas - 1);
  for (std::int64_t rank = first; rank <= last; ++rank) {
    options.rank = rank;
    Result<data::DistributedSampler> sampler = data::DistributedSampler::make(options);
    if (!sampler.ok()) return bad_input(terminal, "lockstep sampler: " + sampler.error().text());
    sampler.value().set_epoch(arguments.epoch);
    print(sampler.value(), terminal);
  }
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
