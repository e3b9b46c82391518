// The parts of read_words(), one for each thing that words are about.
#pragma once

#include "lockstep/real/torchrun/words.h"

namespace lockstep::torchrun {

/// Machines, addresses, ports and the name of the run.
Outcome read_place(const Words& words, Reading& to);

/// Ranks of this machine, and the devices they see.
Outcome read_ranks(const Words& words, const launch::Lookup& inherited, Reading& to);

/// The program of a rank.
Outcome read_program(const Words& words,
                     const Program& program,
                     const launch::Lookup& inherited,
                     Reading& to);

}  // namespace lockstep::torchrun
