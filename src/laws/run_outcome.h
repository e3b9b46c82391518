// How a run ended, laws included: what a report says first.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class RunOutcome : std::uint8_t {
  kOk,        ///< Every rank finished, and no law was broken.
  kFindings,  ///< Every rank finished, and laws were broken.
  kHang,      ///< No rank could continue, or ranks ran without end.
  kError,     ///< A rank failed.
};

/// Their names, in files and on screens, in the order of the enumerators.
inline constexpr std::array<std::string_view, 4> kRunOutcomeNames = {
    "ok", "findings", "hang", "error"};

constexpr std::string_view name_of(RunOutcome outcome) {
  return kRunOutcomeNames[static_cast<std::size_t>(outcome)];
}

/// Nothing for a word that names none.
std::optional<RunOutcome> parse_run_outcome(std::string_view name);

/// Whether every rank finished.
constexpr bool is_complete(RunOutcome outcome) {
  return outcome == RunOutcome::kOk || outcome == RunOutcome::kFindings;
}

}  // namespace lockstep
