// Which of a model's parameters a wrapper keeps equal and reduces, and by which of their names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ddp/ddp.h"

namespace lockstep {

bool lists(std::span<const std::string> ignored, std::string_view name);

/// Those whose own names are not ignored, in the order given.
std::vector<NamedVariable> without_ignored(std::vector<NamedVariable> variables,
                                           std::span<const std::string> ignored);

/// The reducer's, in index order: what requires a gradient and is not ignored in the reducer's
/// spelling. A shared parameter stands where the first of its names that is not ignored does.
std::vector<NamedVariable> reducer_parameters(const ReplicatedState& state,
                                              std::span<const std::string> ignored);

/// What debugging calls such a parameter: in the reducer's spelling, by the last of its names.
std::string debug_name(const NamedVariable& reduced,
                       const ReplicatedState& state,
                       std::span<const std::string> ignored);

}  // namespace lockstep
