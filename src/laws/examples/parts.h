// The parts of the table of examples, each in its own file.
#pragma once

#include <span>

#include "lockstep/laws/cause_examples.h"

namespace lockstep::laws {

std::span<const CauseExample> call_examples();
std::span<const CauseExample> data_examples();
std::span<const CauseExample> gradient_examples();
std::span<const CauseExample> state_examples();

}  // namespace lockstep::laws
