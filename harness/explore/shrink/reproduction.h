// A failure on paper: a scenario file, a C++ test, what does not matter.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/explore/search/variations.h"
#include "lockstep/harness/explore/shrink/shrink.h"

namespace lockstep::explore {

/// A shrunk failure and what is known of it.
struct Reproduction {
  std::string origin;  ///< The scenario it was found in, for readers: "job.toml (variant fixed)".
  std::string folder;  ///< Where that lies: data files are relative to it.
  std::string title;   ///< Of that scenario.
  std::vector<std::string> remarks;  ///< sentences(vary(...)), or none.
};

/// A scenario file with a table `replay`, so that `lockstep replay` repeats the run, and an
/// expectation, so that `lockstep test` succeeds as long as the failure is there.
///
/// Requires: a document without dates.
/// Errors: those of load_scenario and run_scenario, from the text as it is written: the run whose
///     digests it names has been made from it.
Result<std::string> render_scenario(const Shrunk& shrunk, const Reproduction& about);

/// A GoogleTest file that runs the same scenario and expects nothing to fail. It needs no other
/// file, unless the scenario reads data from one, and only what an installed Lockstep has.
std::string render_test(const Shrunk& shrunk, const Reproduction& about);

struct WrittenFiles {
  std::string scenario;
  std::string test;
};

/// Writes both into a folder, which is made if it is not there, as repro.toml and repro_test.cc.
/// Errors: those of render_scenario; the folder or a file cannot be written.
Result<WrittenFiles> write_reproduction(const std::string& folder,
                                        const Shrunk& shrunk,
                                        const Reproduction& about);

}  // namespace lockstep::explore
