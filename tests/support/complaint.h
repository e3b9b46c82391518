// What a broken contract says, and tables of contracts with what they are to say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep::testing {

/// The text of the ContractViolation that `act` throws, or a note that it threw none.
inline std::string complaint_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ContractViolation& violation) {
    return violation.what();
  }
  return "(no contract was broken)";
}

/// A contract that `act` breaks, and what its message has to hold: the values above all.
struct BrokenContract {
  std::function<void()> act;
  std::string says;
};

inline void expect_complaints(const std::vector<BrokenContract>& contracts) {
  for (const BrokenContract& contract : contracts) {
    const std::string complaint = complaint_of(contract.act);
    // After the place, and before the condition where that is shown, too.
    const std::string says = ": " + contract.says;
    const bool is_said =
        complaint.ends_with(says) || complaint.find(says + " (required: ") != std::string::npos;
    EXPECT_TRUE(is_said) << complaint << "\n  was to say: " << contract.says;
  }
}

}  // namespace lockstep::testing
