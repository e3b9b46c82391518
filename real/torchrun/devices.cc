// How many ranks a machine runs: a number, or a word that asks for one per processor or device.
#include <algorithm>
#include <array>
#include <filesystem>
#include <sched.h>

#include "lockstep/base/text.h"
#include "lockstep/real/torchrun/detail/parts.h"

namespace lockstep::torchrun {

namespace {

/// Processors that this process may run on, as torchrun counts them.
std::int32_t count_processors() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

/// NVIDIA's driver has a folder for each device; a mask hides all that it does not name.
std::int32_t count_gpus(const launch::Lookup& inherited) {
  std::error_code failed;
  std::int32_t there = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", failed)) {
    there += entry.is_directory() ? 1 : 0;
  }
  const std::optional<std::string> mask = inherited("CUDA_VISIBLE_DEVICES");
  if (!mask) return there;
  std::int32_t visible = 0;
  // The first entry that names no device ends the list, as in CUDA.
  for (const std::string_view word : split(*mask, ',')) {
    const std::optional<std::int64_t> index = parse_int(trim(word));
    const bool by_name = !index && !trim(word).empty();
    if (!by_name && (!index || *index < 0 || *index >= there)) break;
    ++visible;
  }
  return std::min(visible, there);
}

}  // namespace

Outcome read_ranks(const Words& words, const launch::Lookup& inherited, Reading& to) {
  constexpr std::array<std::string_view, 4> kKnown = {"auto", "cpu", "gpu", "xpu"};
  const std::string& asked = words.nproc_per_node;
  launch::LaunchOptions& options = to.options;
  options.virtual_local_rank = words.virtual_local_rank;
  if (const std::optional<std::int64_t> n = parse_int(asked)) {
    constexpr std::int64_t kMost = INT32_MAX;
    options.n_per_node = static_cast<std::int32_t>(std::clamp<std::int64_t>(*n, -1, kMost));
  } else if (asked == "cpu") {
    options.n_per_node = count_processors();
  } else if (asked == "gpu" || asked == "auto") {
    const std::int32_t gpus = count_gpus(inherited);
    if (gpus == 0 && asked == "gpu") {
      return Error{"--nproc-per-node gpu: this machine has no NVIDIA device that is visible", {}};
    }
    options.n_per_node = gpus > 0 ? gpus : count_processors();
  } else if (asked == "xpu") {
    return Error{"--nproc-per-node xpu: this launcher counts NVIDIA devices only; give a number",
                 {}};
  } else {
    return Error{"--nproc-per-node: '" + asked + "' is not a number of ranks" +
                     alternatives(asked, kKnown, "the words for one are"),
                 {}};
  }
  const std::optional<std::string> mask = inherited("CUDA_VISIBLE_DEVICES");
  if (options.virtual_local_rank && mask && options.n_per_node > 0) {
    const std::size_t n_devices = split(*mask, ',').size();
    if (n_devices < static_cast<std::size_t>(options.n_per_node)) {
      return Error{"--virtual-local-rank: CUDA_VISIBLE_DEVICES=" + *mask +
                       " has no device for rank " + std::to_string(n_devices) + " of " +
                       std::to_string(options.n_per_node),
                   {}};
    }
  }
  return success();
}

}  // namespace lockstep::torchrun
