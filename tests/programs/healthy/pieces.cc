// Gradients in one buffer, and steps that ranks share out or take back.
#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

// All gradients go in one piece.
void gradients_in_one_piece(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  Kernels& kernels = rank.runtime().kernels();
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    std::int64_t n_elems = 0;
    for (const Variable& parameter : optimizer.parameters()) n_elems += parameter.grad().n_elems();
    const Tensor piece = Tensor::zeros(rank.runtime(), {n_elems}, DType::kF32);
    std::int64_t at = 0;
    for (const Variable& parameter : optimizer.parameters()) {
      const std::int64_t n = parameter.grad().n_elems();
      kernels.copy(piece.slice(at, {n}), parameter.grad().slice(0, {n}));
      at += n;
    }
    rank.world().all_reduce(Memory::of(piece), ReduceOp::kAvg).wait_or_throw();
    at = 0;
    for (const Variable& parameter : optimizer.parameters()) {
      const std::int64_t n = parameter.grad().n_elems();
      kernels.copy(parameter.grad().slice(0, {n}), piece.slice(at, {n}));
      at += n;
    }
    optimizer.step();
  }
}

// Each rank steps with a share of what the wrapper averages, and sends what it has made of it.
void share_of_a_wrapper(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  const std::vector<Variable> all = model.parameters();
  const auto owner_of = [&](std::size_t i) {
    return static_cast<std::int32_t>(i) % rank.world_size();
  };
  std::vector<Variable> own;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (owner_of(i) == rank.rank()) own.push_back(all[i]);
  }
  optim::Adam optimizer(own, {.lr = 0.125});
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    model.zero_grad();
    mse_loss(ddp(batch.x), batch.y).backward();
    optimizer.step();
    for (std::size_t i = 0; i < all.size(); ++i) {
      rank.world().broadcast(Memory::of(all[i].data()), owner_of(i)).wait_or_throw();
    }
  }
}

// A trial step of the last layer, which all ranks take back; what it would have gained weighs the loss of the step
// that stays.
void tried_and_taken_back(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  const std::vector<Variable> last = model.last().parameters();
  optim::Sgd trial(last, {.lr = 0.5});
  optim::Sgd optimizer(model.first().parameters(), kSgd);
  Kernels& kernels = rank.runtime().kernels();
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    std::vector<Tensor> before;
    for (const Variable& parameter : last) {
      before.push_back(Tensor::empty_like(parameter.data()));
      kernels.copy(before.back(), parameter.data());
    }
    model.zero_grad();
    mse_loss(ddp(batch.x), batch.y).backward();
    trial.step();
    (void)output_of(model, batch.x);
    for (std::size_t i = 0; i < last.size(); ++i) kernels.copy(last[i].data(), before[i]);
    optimizer.step();
  }
}

/// Copies all gradients into one piece or out of it, from the last parameter to the first.
void move_backwards(RankContext& rank,
                    const Tensor& piece,
                    const std::vector<Variable>& parameters,
                    bool in) {
  std::int64_t at = 0;
  for (auto one = parameters.rbegin(); one != parameters.rend(); ++one) {
    const Tensor part = piece.slice(at, one->shape());
    rank.runtime().kernels().copy(in ? part : one->grad(), in ? one->grad() : part);
    at += one->grad().n_elems();
  }
}

// All gradients go in one piece, from the last to the first, and are clipped there.
void backwards_in_one_piece(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const std::vector<Variable> parameters = model.parameters();
  optim::Sgd optimizer(parameters, kSgd);
  Kernels& kernels = rank.runtime().kernels();
  std::int64_t n_elems = 0;
  for (const Variable& parameter : parameters) n_elems += parameter.data().n_elems();
  const Tensor piece = Tensor::zeros(rank.runtime(), {n_elems}, DType::kF32);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    move_backwards(rank, piece, parameters, true);
    rank.world().all_reduce(Memory::of(piece), ReduceOp::kAvg).wait_or_throw();
    if (step > 2) kernels.scale(piece, piece, 0.75);
    move_backwards(rank, piece, parameters, false);
    optimizer.step();
  }
}

// The same of layers of one shape, of which a rank has no gradients but zeros: where each lies in the piece cannot be
// seen there.
void zeros_in_one_piece(RankContext& rank) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  model.append<nn::Linear>(4, 4, init);
  const std::vector<Variable> parameters = model.parameters();
  optim::Sgd optimizer(parameters, kSgd);
  const Tensor piece = Tensor::zeros(rank.runtime(), {40}, DType::kF32);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Variable x = batch_of(rank, step).x;
    const bool is_idle = rank.rank() == 1;
    optimizer.zero_grad();
    scale(mse_loss(model(x), x.data()), is_idle ? 0.0 : 1.0).backward();
    move_backwards(rank, piece, parameters, true);
    rank.world().all_reduce(Memory::of(piece), ReduceOp::kAvg).wait_or_throw();
    move_backwards(rank, piece, parameters, false);
    optimizer.step();
  }
}

}  // namespace

std::vector<HealthyProgram> piece_programs() {
  return {
      {.name = "GradientsInOnePiece", .ranks = 3, .program = gradients_in_one_piece},
      {.name = "ShareOfAWrapper", .ranks = 3, .program = share_of_a_wrapper},
      {.name = "TriedAndTakenBack", .program = tried_and_taken_back},
      {.name = "BackwardsInOnePiece", .ranks = 3, .program = backwards_in_one_piece},
      {.name = "ZerosInOnePiece", .ranks = 3, .program = zeros_in_one_piece},
  };
}

}  // namespace lockstep::programs
