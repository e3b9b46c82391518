// Laws about one training, in programs that make several.
#pragma once

#include <memory>

#include "lockstep/laws/law.h"

namespace lockstep::laws {

/// A law that compares passes over data, draws or decisions of one training, checked on each
/// training of a program by itself: a second one begins again with its first epoch, its seed and its
/// splits, and owes nothing to the first.
std::unique_ptr<Law> make_per_training(std::unique_ptr<Law> (*make)(const LawPolicy&),
                                       const LawPolicy& policy);

}  // namespace lockstep::laws
