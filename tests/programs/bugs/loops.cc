// Loops that average gradients without a wrapper, and models that a loop uses beside the one it trains.
#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

// Rank 0's gradients are sent to the others where their mean is meant: three quarters of the data are read
// for nothing.
void gradients_broadcast(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      const Memory grad = Memory::of(parameter.grad());
      (form.fixed ? rank.world().all_reduce(grad, ReduceOp::kAvg) : rank.world().broadcast(grad, 0))
          .wait_or_throw();
    }
    optimizer.step();
  }
}

// The loop over the sums divides weights and forgets biases.
void biases_not_divided(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      const Tensor& grad = parameter.grad();
      rank.world().all_reduce(Memory::of(grad)).wait_or_throw();
      const bool is_weight = grad.shape().n_dims() == 2;
      if (is_weight || form.fixed) {
        rank.runtime().kernels().div_scalar(grad, grad, rank.world_size());
      }
    }
    optimizer.step();
  }
}

// Ranks step a shard of all parameters each, and clip its gradient by the norm of that shard.
void zero_clipped_apart(RankContext& rank, Form form) {
  ProcessGroup& world = rank.world();
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 16, init);
  model.append<nn::Tanh>();
  model.append<nn::Linear>(16, 1, init);
  const std::vector<Variable> parameters = model.parameters();
  std::int64_t n_elems = 0;
  for (const Variable& one : parameters) n_elems += one.data().n_elems();
  const std::int64_t n_own = (n_elems + world.size() - 1) / world.size();
  const Tensor whole = Tensor::zeros(rank.runtime(), {n_own * world.size()}, DType::kF32);
  const auto each_place = [&](auto visit) {
    std::int64_t at = 0;
    for (const Variable& one : parameters) {
      visit(one, whole.slice(at, one.shape()));
      at += one.data().n_elems();
    }
  };
  Kernels& kernels = rank.runtime().kernels();
  each_place([&](const Variable& one, const Tensor& place) { kernels.copy(place, one.data()); });
  const Variable shard(whole.slice(n_own * world.rank(), {n_own}).clone(), true);
  optim::Sgd optimizer({shard}, kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    model.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    each_place([&](const Variable& one, const Tensor& place) { kernels.copy(place, one.grad()); });
    const Tensor own = Tensor::empty_like(shard.data());
    world.reduce_scatter_tensor(Memory::of(own), Memory::of(whole), ReduceOp::kAvg).wait_or_throw();
    shard.set_grad(own);
    double squares = std::pow(optim::total_norm(optimizer.parameters()), 2.0);
    if (form.fixed) world.all_reduce(Memory::of(squares)).wait_or_throw();
    optim::clip_grads_with_norm(optimizer.parameters(), {.max_norm = 0.125}, std::sqrt(squares));
    optimizer.step();
    world.all_gather_into_tensor(Memory::of(whole), Memory::of(shard)).wait_or_throw();
    each_place([&](const Variable& one, const Tensor& place) { kernels.copy(one.data(), place); });
  }
}

// The losses are divided by the number of ranks, and so are the sums of their gradients.
void own_mean_divided_again(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    scale(mse_loss(model(batch.x), batch.y), 1.0 / rank.world_size()).backward();
    const ReduceOp op = form.fixed ? ReduceOp::kSum : ReduceOp::kAvg;
    for (const Variable& parameter : optimizer.parameters()) {
      rank.world().all_reduce(Memory::of(parameter.grad()), op).wait_or_throw();
    }
    optimizer.step();
  }
}

// Gradients go in one piece, from the last to the first, and are taken out of it from the first to the last.
void packed_in_another_order(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  Kernels& kernels = rank.runtime().kernels();
  std::vector<Variable> order = model.parameters();
  std::int64_t n_elems = 0;
  for (const Variable& parameter : order) n_elems += parameter.data().n_elems();
  const Tensor piece = Tensor::zeros(rank.runtime(), {n_elems}, DType::kF32);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    std::reverse(order.begin(), order.end());
    std::int64_t at = 0;
    for (const Variable& parameter : order) {
      kernels.copy(piece.slice(at, parameter.shape()), parameter.grad());
      at += parameter.grad().n_elems();
    }
    rank.world().all_reduce(Memory::of(piece)).wait_or_throw();
    kernels.div_scalar(piece, piece, rank.world_size());
    std::reverse(order.begin(), order.end());
    std::vector<Variable> out = order;
    if (form.fixed) std::reverse(out.begin(), out.end());
    at = 0;
    for (const Variable& parameter : out) {
      kernels.copy(parameter.grad(), piece.slice(at, parameter.shape()));
      at += parameter.grad().n_elems();
    }
    optimizer.step();
  }
}

// Each rank evaluates its rows with running statistics of its own, and the losses are added up.
void evaluated_with_own_statistics(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    averaged_step(rank, model, optimizer, batch_of(rank, step));
    if (step % 2 == 0) continue;
    for (const NamedVariable& buffer : model.named_buffers()) {
      if (form.fixed) rank.world().broadcast(Memory::of(buffer.variable), 0).wait_or_throw();
    }
    model.eval();
    const Batch held_out = batch_of(rank, 100 + step);
    const NoGradGuard no_grad(rank.runtime());
    (void)summed(rank.world(), mse_loss(model(held_out.x), held_out.y).item());
    model.train();
  }
}

// Each rank clips what it has computed, and the averages are of clipped gradients.
void clip_before_own_average(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    if (!form.fixed) (void)optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.125});
    for (const Variable& parameter : optimizer.parameters()) {
      rank.world().all_reduce(Memory::of(parameter.grad()), ReduceOp::kAvg).wait_or_throw();
    }
    if (form.fixed) (void)optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.125});
    optimizer.step();
  }
}

// Ranks train alone and average their parameters every second step, all of them but the last.
void average_leaves_one_out(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 5; ++step) {
    train_step(model, optimizer, batch_of(rank, step));
    if (step % 2 == 0) continue;
    for (const Variable& parameter : model.parameters()) {
      const bool is_last = parameter == model.parameters().back();
      if (is_last && !form.fixed) continue;
      rank.world().all_reduce(Memory::of(parameter.data()), ReduceOp::kAvg).wait_or_throw();
    }
  }
}

// Each rank steps with every second parameter, of gradients that all ranks have averaged, and sends
// what it has made of its own. The last one is not sent.
void share_not_sent(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const std::vector<Variable> all = model.parameters();
  const auto owner_of = [&](std::size_t i) {
    return static_cast<std::int32_t>(i) % rank.world_size();
  };
  std::vector<Variable> own;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (owner_of(i) == rank.rank()) own.push_back(all[i]);
  }
  optim::Adam optimizer(own, {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    model.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    average_gradients(rank, all);
    optimizer.step();
    for (std::size_t i = 0; i < (form.fixed ? all.size() : all.size() - 1); ++i) {
      rank.world().broadcast(Memory::of(all[i].data()), owner_of(i)).wait_or_throw();
    }
  }
}

// The same, and a parameter is sent by the rank that would have it if shares were blocks.
void share_sent_by_another(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const std::vector<Variable> all = model.parameters();
  const std::size_t world = static_cast<std::size_t>(rank.world_size());
  const std::size_t share = (all.size() + world - 1) / world;
  std::vector<Variable> own;
  for (std::size_t i = static_cast<std::size_t>(rank.rank()); i < all.size(); i += world) {
    own.push_back(all[i]);
  }
  optim::Adam optimizer(own, {.lr = 0.125});
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    model.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    average_gradients(rank, all);
    optimizer.step();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto root = static_cast<std::int32_t>(form.fixed ? i % world : i / share);
      rank.world().broadcast(Memory::of(all[i].data()), root).wait_or_throw();
    }
  }
}

// Rank 0 prints the mean of the losses, and is the only one to ask for it: its sum meets a gradient of as many
// elements, and so on until the others have ended.
void loss_reduced_on_rank_0(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear model(rank.runtime(), 4, 1, init, {.bias = false});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    const Variable loss = mse_loss(model(batch.x), batch.y);
    loss.backward();
    average_gradients(rank, optimizer.parameters());
    optimizer.step();
    if (step % 2 == 1 || (rank.rank() != 0 && !form.fixed)) continue;
    std::array<float, 4> shown = {static_cast<float>(loss.item()), 4, 0, 0};
    rank.world().all_reduce(Memory::of(std::span<float>(shown)), ReduceOp::kAvg).wait_or_throw();
  }
}

// Ranks draw a task each, and reduce the gradients that it has given them: those of one head meet those of
// the other, which has as many elements.
void absent_gradients_skipped(RankContext& rank, Form form) {
  Generator init(1);
  nn::TwoHead model(rank.runtime(), {.in = 4, .hidden = 4, .out = 1});
  model.reset_parameters(init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    model.use((step + rank.rank()) % 2 == 0 ? nn::Heads::kA : nn::Heads::kB);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      if (parameter.has_grad() || !form.fixed) continue;
      parameter.set_grad(Tensor::zeros(rank.runtime(), parameter.shape(), DType::kF32));
    }
    average_gradients(rank, optimizer.parameters());
    optimizer.step();
  }
}

// A loss scale that each rank halves where its own gradients have overflowed; the others' stay as they are.
void own_loss_scale(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  Kernels& kernels = rank.runtime().kernels();
  double loss_scale = 1024.0;
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    scale(mse_loss(model(batch.x), batch.y), loss_scale).backward();
    double overflow = step == 1 && rank.rank() == 1 ? 1.0 : 0.0;
    if (form.fixed) overflow = largest(rank.world(), overflow);
    for (const Variable& parameter : optimizer.parameters()) {
      if (overflow > 0.0) kernels.fill(parameter.grad(), 0.0);
    }
    if (overflow > 0.0) loss_scale /= 2.0;
    average_gradients(rank, optimizer.parameters());
    for (const Variable& parameter : optimizer.parameters()) {
      kernels.scale(parameter.grad(), parameter.grad(), 1.0 / loss_scale);
    }
    optimizer.step();
  }
}

// The teacher is made of each rank's own initial weights; the wrapper has given all of them rank 0's.
void teacher_copied_early(RankContext& rank, Form form) {
  Generator init(form.fixed ? 1 : 1 + static_cast<std::uint64_t>(rank.rank()));
  Mlp model(rank.runtime(), init);
  Generator none(0);
  Mlp teacher(rank.runtime(), none);
  const std::vector<Variable> own = model.parameters();
  const std::vector<Variable> copied = teacher.parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {
    rank.runtime().kernels().copy(copied[i].data(), own[i].data());
  }
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    const Tensor target = output_of(teacher, batch.x);
    train_step(ddp, optimizer, {batch.x, target});
  }
}

}  // namespace

std::vector<Bug> loop_bugs() {
  return {
      {.id = "gradients-broadcast",
       .ranks = 4,
       .program = gradients_broadcast,
       .expected = {.law = "gradient-mean", .ranks = {0}, .step = 1}},
      {.id = "biases-not-divided",
       .program = biases_not_divided,
       .expected = {.law = "gradient-mean", .cause = "sum-vs-mean", .step = 1}},
      {.id = "zero-clipped-apart",
       .ranks = 3,
       .program = zero_clipped_apart,
       .expected = {.law = "norm-true", .cause = "clip-own-part", .ranks = {0, 1, 2}, .step = 0}},
      {.id = "own-mean-divided-again",
       .ranks = 3,
       .program = own_mean_divided_again,
       .expected = {.law = "A-divided-again", .says = "in the losses, and in the mean"}},
      {.id = "packed-in-another-order",
       .ranks = 3,
       .program = packed_in_another_order,
       .expected = {.law = "A-taken-elsewhere",
                    .says = "the gradient of `first.weight` was packed at"}},
      {.id = "evaluated-with-own-statistics",
       .ranks = 3,
       .program = evaluated_with_own_statistics,
       .expected = {.law = "A-buffers-apart",
                    .says = "in the evaluation after 2 steps, `norm.running_mean`"}},
      {.id = "clip-before-own-average",
       .program = clip_before_own_average,
       .expected = {.law = "norm-true", .cause = "clip-before-sync", .ranks = {0, 1}, .step = 1}},
      {.id = "average-leaves-one-out",
       .program = average_leaves_one_out,
       .expected = {.law = "replicas-equal", .ranks = {1}, .step = 0, .tensor = "last.bias"}},
      {.id = "share-not-sent",
       .ranks = 3,
       .program = share_not_sent,
       .expected = {.law = "replicas-equal", .ranks = {0}, .step = 3, .tensor = "last.bias"}},
      {.id = "share-sent-by-another",
       .program = share_sent_by_another,
       .expected = {.law = "trained-set",
                    .cause = "update-overwritten",
                    .ranks = {1},
                    .step = 2,
                    .tensor = "first.bias"}},
      {.id = "loss-reduced-on-rank-0",
       .ranks = 3,
       .program = loss_reduced_on_rank_0,
       .expected =
           {.law = "collectives-match", .cause = "rank0-only-collective", .ranks = {0}, .step = 1}},
      {.id = "absent-gradients-skipped",
       .ranks = 4,
       .program = absent_gradients_skipped,
       .expected = {.law = "replicas-equal",
                    .cause = "absent-gradients-skipped",
                    .ranks = {1, 3},
                    .step = 0,
                    .tensor = "head_a.weight"}},
      {.id = "own-loss-scale",
       .ranks = 3,
       .program = own_loss_scale,
       .expected = {.law = "replicas-equal", .ranks = {1}, .step = 1, .tensor = "first.weight"}},
      {.id = "teacher-copied-early",
       .program = teacher_copied_early,
       .expected = {.law = "replicas-equal", .cause = "ema-drift", .ranks = {1}, .step = 1}},
  };
}

}  // namespace lockstep::programs
