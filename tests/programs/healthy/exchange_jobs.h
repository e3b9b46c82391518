// Losses with collectives in them: the loop that their programs have in common.
#pragma once

#include <cstdint>

#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/run.h"

#include "tests/programs/training.h"

namespace lockstep::programs {

inline constexpr optim::SgdOptions kExchangeSgd = {.lr = 0.125};

/// Trains with loss_of(ddp, batch).
template <typename Loss>
void trains(RankContext& rank, Loss loss_of) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kExchangeSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss_of(ddp, batch_of(rank, step)).backward();
    optimizer.step();
  }
}

/// The mean over this rank's rows.
inline Variable mean_of(const Variable& z) {
  return scale(sum(tanh(z)), 1.0 / static_cast<double>(z.shape()[0]));
}

}  // namespace lockstep::programs
