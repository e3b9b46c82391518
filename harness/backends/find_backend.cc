#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/real/session/backend.h"

namespace lockstep {

namespace {

/// Backends of processes that some build may hold, and what a build needs for each.
struct Known {
  std::string_view name;
  std::string_view needs;
};

constexpr std::array<Known, 2> kKnown = {{
    {"gloo", "Gloo (libgloo-dev) was not found when it was built"},
    {"nccl", "the CUDA toolkit or NCCL was not found when it was built"},
}};

}  // namespace

Result<Backend> find_backend(std::string_view name) {
  for (const Backend& backend : built_backends()) {
    if (backend.name == name) return backend;
  }
  for (const Known& known : kKnown) {
    if (known.name != name) continue;
    return Error{"backend '" + std::string(name) +
                     "' is not built into this lockstep: " + std::string(known.needs),
                 {}};
  }
  constexpr std::array<std::string_view, 3> kNames = {"sim", "gloo", "nccl"};
  const std::string guess = did_you_mean(name, kNames);
  return Error{"unknown backend '" + std::string(name) + "'" +
                   (guess.empty() ? "; the backends are sim, gloo and nccl" : guess),
               {}};
}

}  // namespace lockstep
