// Runs as records, which keep what they have in common once.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lockstep/harness/explore/search/search.h"

namespace lockstep::explore::detail {

/// One run to make.
struct Planned {
  std::uint64_t number = 0;
  const Scenario* scenario = nullptr;
  std::size_t input = 0;
  std::string strategy;  ///< Makes its schedule again; empty: the scenario's own.
};

/// The run as a record. Requires: `trial` outlives it.
MadeRun record_of(const Planned& run, const Trial& trial);

/// Makes records that outlive what they were made of. A thousand runs reach a handful of different
/// things, which are kept once.
class Shelf {
 public:
  MadeRun keep(const Planned& run, const Trial& trial);

 private:
  std::map<std::string, std::shared_ptr<const Coverage>> known_;  ///< By its text.
};

}  // namespace lockstep::explore::detail
