// States that are kept, loaded and copied in memory, and batches that are joined and taken apart.
#include <memory>
#include <vector>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Goes back to the last good step when the loss jumps: on the rank that sees it jump, or on all.
void rolled_back_alone(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Adam optimizer(model.parameters(), {.lr = 0.05});
  nn::StateDict weights = model.state_dict().clone();
  optim::OptimizerState moments = optimizer.state_dict().clone();
  for (std::int64_t step = 0; step < 4; ++step) {
    double loss = train_step(ddp, optimizer, batch_of(rank, step));
    if (step == 2 && rank.rank() == 1) loss = 1e9;  // An outlier among its rows.
    if (form.fixed) loss = largest(rank.world(), loss);
    if (loss > 1e6) {
      model.load_state_dict(weights);
      optimizer.load_state_dict(moments);
    } else {
      weights = model.state_dict().clone();
      moments = optimizer.state_dict().clone();
    }
  }
}

// The wrapper sends rank 0's weights to all. Nothing sends its optimizer's moments.
void moments_of_rank_0(RankContext& rank, Form form) {
  Generator init(1);
  Mlp before(rank.runtime(), init);
  optim::OptimizerState moments;
  {
    DistributedDataParallel ddp(before, rank.world());
    optim::Adam optimizer(before.parameters(), {.lr = 0.05});
    for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
    moments = optimizer.state_dict().clone();
  }
  Mlp model(rank.runtime(), init);
  if (rank.rank() == 0) model.load_state_dict(before.state_dict());
  DistributedDataParallel ddp(model, rank.world());
  optim::Adam optimizer(model.parameters(), {.lr = 0.05});
  if (form.fixed || rank.rank() == 0) optimizer.load_state_dict(moments);
  for (std::int64_t step = 2; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// The target network follows every twelve transitions, and ranks differ in how many a step takes; or every three steps.
void target_refreshed_apart(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear online(rank.runtime(), 4, 1, init);
  const auto target = nn::copy_of(online, rank.runtime(), 4, 1);
  target->requires_grad(false);
  DistributedDataParallel ddp(online, rank.world());
  optim::Adam optimizer(online.parameters(), {.lr = 0.05});
  std::int64_t seen = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    const std::int64_t rows = 4 + rank.rank();
    const Batch batch = batch_of(rank, step, rows);
    const Variable later(output_of(*target, batch.x));
    const Tensor goal = add(Variable(batch.y), scale(later, 0.5)).data();
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), goal, 4.0).backward();
    optimizer.step();
    seen += rows;
    const bool is_due = form.fixed ? step % 3 == 2 : seen / 12 > (seen - rows) / 12;
    if (is_due) target->load_state_dict(online.state_dict());
  }
}

// Each rank's queries against the keys of all ranks, with its own keys put back: the other ranks' losses have no way to
// them, or the gather's function has a backward.
void own_keys_put_back(RankContext& rank, Form form) {
  constexpr std::int64_t kRows = 4;
  Generator init(1);
  nn::Linear encoder(rank.runtime(), 4, 3, init);
  DistributedDataParallel ddp(encoder, rank.world());
  optim::Sgd optimizer(encoder.parameters(), {.lr = 0.1});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Variable views = cat(
        {Variable(numbers(rank, step, kRows, 4)), Variable(numbers(rank, step + 20, kRows, 4))});
    optimizer.zero_grad();
    const Variable encoded = ddp(views);
    const Variable queries = slice(encoded, 0, 0, kRows);
    const Variable own = slice(encoded, 0, kRows, kRows);
    Variable keys;
    if (form.fixed) {
      keys = all_gather(own, rank.world());
    } else {
      const Tensor sent = own.data().clone();
      const Tensor all = Tensor::empty(rank.runtime(), {kRows * rank.world_size(), 3}, DType::kF32);
      rank.world().all_gather_into_tensor(Memory::of(all), Memory::of(sent)).wait_or_throw();
      std::vector<Variable> parts;
      for (std::int32_t r = 0; r < rank.world_size(); ++r) {
        parts.push_back(r == rank.rank() ? own : Variable(all.rows(r * kRows, kRows).clone()));
      }
      keys = cat(parts);
    }
    std::vector<double> labels;
    for (std::int64_t i = 0; i < kRows; ++i) {
      labels.push_back(static_cast<double>(rank.rank() * kRows + i));
    }
    cross_entropy(linear(queries, keys, {}),
                  Tensor::of(rank.runtime(), {kRows}, DType::kI64, labels))
        .backward();
    optimizer.step();
  }
}

// The slice that reduces is the last one of a full batch, which rank 1's last batch does not have, or of this one.
void last_slice_of_a_full_batch(RankContext& rank, Form form) {
  constexpr std::int64_t kFull = 8;
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
  for (std::int64_t step = 0; step < 3; ++step) {
    const std::int64_t rows = step == 2 && rank.rank() == 1 ? 6 : kFull;
    const Batch batch = batch_of(rank, step, rows);
    const Variable y(batch.y);
    optimizer.zero_grad();
    const std::int64_t last = (form.fixed ? rows : kFull) - 2;
    for (std::int64_t first = 0; first < rows; first += 2) {
      std::unique_ptr<NoSync> quiet;
      if (first != last) quiet = std::make_unique<NoSync>(ddp);
      mse_loss(ddp(slice(batch.x, 0, first, 2)), slice(y, 0, first, 2).data(), kFull).backward();
    }
    optimizer.step();
  }
}

}  // namespace

std::vector<Bug> copy_bugs() {
  return {
      {.id = "rolled-back-alone",
       .ranks = 3,
       .program = rolled_back_alone,
       .expected =
           {.law = "optimizer-equal", .cause = "opt-state-root-only", .ranks = {1}, .step = 3}},
      {.id = "moments-of-rank-0",
       .ranks = 3,
       .program = moments_of_rank_0,
       .expected =
           {.law = "optimizer-equal", .cause = "opt-state-root-only", .ranks = {0}, .step = 0}},
      {.id = "target-refreshed-apart",
       .program = target_refreshed_apart,
       .expected = {.law = "replicas-equal", .cause = "ema-drift", .ranks = {1}}},
      {.id = "own-keys-put-back",
       .program = own_keys_put_back,
       .expected = {.law = "single-process-equal", .cause = "gather-own-share", .step = 0}},
      {.id = "last-slice-of-a-full-batch",
       .program = last_slice_of_a_full_batch,
       .expected =
           {.law = "reduced-once", .cause = "last-micro-unsynced", .ranks = {1}, .step = 2}},
  };
}

}  // namespace lockstep::programs
