// State beside trained parameters: queues, averages, targets, copies.
#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// An encoder with a queue of the keys of the last steps, as contrastive learning keeps one.
class QueuedEncoder final : public nn::Module {
 public:
  QueuedEncoder(RankContext& rank, Generator& init, bool gathers)
      : Module(rank.runtime()),
        world_(&rank.world()),
        layer_(rank.runtime(), 4, 1, init),
        queue_(register_buffer("queue", Tensor::zeros(rank.runtime(), {4}, DType::kF32))),
        gathers_(gathers) {
    register_module("layer", layer_);
  }

  Variable forward(const Variable& x) override {
    Variable y = layer_(x);
    enqueue(y.data().at(0));
    return y;
  }

 private:
  // Ranks take turns in the queue: two keys, one of each rank, or twice this rank's own.
  void enqueue(double key) {
    std::vector<double> keys(2, key);
    if (gathers_) {
      world_
          ->all_gather_into_tensor(Memory::of(std::span(keys)),
                                   Memory::of(std::span<double>(&key, 1)))
          .wait_or_throw();
    }
    const std::int64_t place = 2 * (n_steps_++ % 2);
    for (std::int64_t i = 0; i < 2; ++i) {
      queue_.data().write<float>()[place + i] =
          static_cast<float>(keys[static_cast<std::size_t>(i)]);
    }
  }

  ProcessGroup* world_;
  nn::Linear layer_;
  Variable queue_;
  bool gathers_;
  std::int64_t n_steps_ = 0;
};

// Each rank puts its own keys into the queue, and the wrapper's broadcast of buffers then replaces
// them by rank 0's: what the other ranks encoded is lost.
void buffer_overwritten_by_0(RankContext& rank, Form form) {
  Generator init(1);
  QueuedEncoder model(rank, init, form.fixed);
  DistributedDataParallel ddp(model, rank.world());
  if (form.annotated) rank.annotate().buffers({"queue"}, BufferPolicy::kSynced);
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// A running average of a whole model, buffers included.
class AveragedModel {
 public:
  explicit AveragedModel(const nn::Module& model) {
    for (const auto& list : {model.named_parameters(), model.named_buffers()}) {
      for (const NamedVariable& one : list) {
        if (!is_floating(one.variable.data().dtype())) continue;
        sources_.push_back(one.variable.data());
        averages_.push_back(one.variable.data().clone());
      }
    }
  }

  void update() const {
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      Kernels& kernels = averages_[i].runtime().kernels();
      kernels.scale(averages_[i], averages_[i], 0.5);
      kernels.add_scaled(averages_[i], averages_[i], sources_[i], 0.5);
    }
  }

  const std::vector<Tensor>& averages() const { return averages_; }

 private:
  std::vector<Tensor> sources_;
  std::vector<Tensor> averages_;
};

// The average is kept on every rank, of batch norm's running statistics too, and these are each
// rank's own when the average is taken.
void ema_drift(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const AveragedModel ema(model);
  if (form.annotated) rank.annotate().replicated("ema", ema.averages());
  for (std::int64_t step = 0; step < 2; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (form.fixed) {
      for (const NamedVariable& buffer : model.named_buffers()) {
        rank.world().broadcast(Memory::of(buffer.variable.data()), 0).wait_or_throw();
      }
    }
    ema.update();
  }
}

// A network and the target that it is trained towards; the target takes no gradient.
class WithTarget final : public nn::Module {
 public:
  WithTarget(Runtime& runtime, Generator& init)
      : Module(runtime), online_(runtime, 4, 1, init), target_(runtime, 4, 1, init) {
    register_module("online", online_);
    register_module("target", target_);
    for (const Variable& parameter : target_.parameters()) parameter.set_requires_grad(false);
  }

  Variable forward(const Variable& x) override { return sub(online_(x), target_(x)); }

  const Variable& target() const { return target_.weight(); }

 private:
  nn::Linear online_;
  nn::Linear target_;
};

// The target moves towards a statistic of the batch, which is each rank's own.
void nongrad_param_drift(RankContext& rank, Form form) {
  Generator init(1);
  WithTarget model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  std::vector<Variable> trained;
  for (const Variable& parameter : model.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  optim::Sgd optimizer(trained, {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    const Batch batch = batch_of(rank, step);
    train_step(ddp, optimizer, batch);
    const Tensor centre = batch.x.data().rows(0, 1).clone();
    if (form.fixed) {
      rank.world().all_reduce(Memory::of(centre), ReduceOp::kAvg).wait_or_throw();
    }
    Kernels& kernels = rank.runtime().kernels();
    kernels.add_scaled(model.target().data(), model.target().data(), centre, 0.25);
  }
}

std::string stream_file(std::int32_t rank) { return "ckpt/rng-" + std::to_string(rank); }

std::string bytes_of(const Generator& generator) {
  const auto state = generator.state();
  return {state.begin(), state.end()};
}

// What a run of two ranks has left: its ranks' random streams.
void earlier_run_of_two(RankContext& rank) {
  if (rank.rank() == 0) {
    save_file(rank, stream_file(0), bytes_of(Generator(40)));
    save_file(rank, stream_file(1), bytes_of(Generator(41)));
  }
  rank.world().barrier().wait_or_throw();
}

// Resumed with four ranks: there are no files for ranks 2 and 3, and both silently go on with the
// stream that the script was started with.
void grow_rng_clone(RankContext& rank, Form form) {
  earlier_run_of_two(rank);
  Generator dropout_stream(form.fixed ? 60 + static_cast<std::uint64_t>(rank.rank()) : 7);
  const auto bytes = rank.host().files().read(stream_file(rank.rank()));
  if (bytes.ok()) {
    const std::string& text = bytes.value();
    dropout_stream.set_state(std::vector<std::uint8_t>(text.begin(), text.end()));
  }

  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  model.append<nn::Dropout>(0.5, dropout_stream);
  model.append<nn::Linear>(4, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// A rank's momentum, kept a second time by the next rank.
std::string copy_of(const Tensor& momentum) {
  const auto* first = static_cast<const char*>(momentum.read_raw());
  return {first, static_cast<std::size_t>(momentum.n_bytes())};
}

// Damages one bit of what rank 2 keeps for rank 1, as memory does that goes bad.
void decay(RankContext& rank, std::string& kept) {
  if (rank.rank() == 2) kept[2] = static_cast<char>(kept[2] ^ 0x40);
}

// Moves `bytes` one rank up, or one rank down. Returns: what arrived.
std::string shifted(RankContext& rank, std::string bytes, std::int32_t by) {
  const std::int32_t n = rank.world_size();
  std::string arrived(bytes.size(), ' ');
  const auto memory = [](std::string& text) {
    return Memory{text.data(), static_cast<std::int64_t>(text.size()), DType::kU8, Device::kCpu};
  };
  const std::array<Message, 2> messages = {
      Message{Message::Kind::kSend, memory(bytes), (rank.rank() + by + n) % n},
      Message{Message::Kind::kRecv, memory(arrived), (rank.rank() - by + n) % n}};
  for (const Work& work : batch_isend_irecv(rank.world(), messages)) work.wait_or_throw();
  return arrived;
}

// Rank 1 loses its memory and takes its momentum back from the copy that rank 2 kept, as it is.
// Repaired: the owner remembers what the copy should be, and all ranks fall back to the momentum of
// the first step when one copy is damaged.
void corrupt_replica_ckpt(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125, .momentum = 0.5});
  train_step(ddp, optimizer, batch_of(rank, 0));
  const Tensor momentum = optimizer.state()[0].tensors[0];
  const std::string fallback = copy_of(momentum);
  train_step(ddp, optimizer, batch_of(rank, 1));

  const std::size_t digest = std::hash<std::string>{}(copy_of(momentum));
  std::string kept = shifted(rank, copy_of(momentum), 1);
  decay(rank, kept);
  std::string restored = shifted(rank, kept, -1);
  if (form.fixed) {
    const bool damaged = std::hash<std::string>{}(restored) != digest;
    if (largest(rank.world(), damaged ? 1.0 : 0.0) > 0.0) restored = fallback;
  } else if (rank.rank() != 1) {
    restored = copy_of(momentum);
  }
  restored.copy(static_cast<char*>(momentum.write_raw()), restored.size());
  train_step(ddp, optimizer, batch_of(rank, 2));
}

// Rank 0 validates after each step and forgets to turn batch norm's training mode off, so it takes the
// validation set in, and the next forward gives its statistics to every rank.
void validated_in_training_mode(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    model.train();
    train_step(ddp, optimizer, batch_of(rank, step));
    if (rank.rank() != 0) continue;
    if (form.fixed) model.eval();
    const NoGradGuard no_grad(rank.runtime());
    model(batch_of(rank, step + 3).x);
  }
}

// Rank 1 keeps batch norm in evaluation mode, as one would where batches are small.
void frozen_on_one_rank(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  if (form.fixed || rank.rank() == 1) model.freeze_norm();
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// Rank 0 looks at its model after the first step, and forgets to turn back to training: its batch
// norm uses running statistics from then on.
void eval_mode_one_rank(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    if (form.fixed) model.train();
    train_step(ddp, optimizer, batch_of(rank, step));
    if (step > 0 || rank.rank() != 0) continue;
    model.eval();
    const NoGradGuard no_grad(rank.runtime());
    (void)model(batch_of(rank, step).x);
  }
}

// Rank 1 computes in 32 bits, as where a device has no bf16; the ranks agree on a mean of gradients
// that no single process has.
void autocast_on_one_rank(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear model(rank.runtime(), 4, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    Variable loss;
    {
      const AutocastGuard autocast(rank.runtime(), {.enabled = form.fixed || rank.rank() != 1});
      loss = mse_loss(ddp(batch.x), batch.y);
    }
    loss.backward();
    optimizer.step();
  }
}

// Rank 0 bounds its weights after the second step, as those of a critic are; the others forget to.
void parameter_nudged(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear model(rank.runtime(), 4, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (step != 1 || (rank.rank() != 0 && !form.fixed)) continue;
    const Tensor& weight = model.weight().data();
    float* const values = weight.write<float>();
    for (std::int64_t i = 0; i < weight.n_elems(); ++i) {
      values[i] = std::clamp(values[i], -0.0625F, 0.0625F);
    }
  }
}

// Rank 1 lists the parameters in another order, as from a set, which does no harm; its learning rate does.
void parameters_listed_otherwise(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  std::vector<Variable> parameters = model.parameters();
  const bool other = rank.rank() == 1;
  if (other) std::reverse(parameters.begin(), parameters.end());
  optim::Adam optimizer(parameters, {.lr = other && !form.fixed ? 0.02 : 0.01});
  for (std::int64_t step = 0; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

}  // namespace

std::vector<Bug> state_bugs() {
  return {
      {.id = "parameter-nudged",
       .program = parameter_nudged,
       .expected = {.law = "replicas-equal",
                    .cause = "parameter-nudged",
                    .ranks = {0},
                    .step = 2,
                    .tensor = "weight"}},
      {.id = "eval-mode-one-rank",
       .program = eval_mode_one_rank,
       .expected =
           {.law = "decisions-uniform", .cause = "eval-mode-one-rank", .ranks = {0}, .step = 1}},
      {.id = "autocast-on-one-rank",
       .program = autocast_on_one_rank,
       .expected =
           {.law = "decisions-uniform", .cause = "autocast-on-one-rank", .ranks = {1}, .step = 0}},
      {.id = "buffer-overwritten-by-0",
       .program = buffer_overwritten_by_0,
       // Without a word the values of rank 0 alone may be meant.
       .expected = {.law = "A-buffer-replaced",
                    .says = "`queue`: rank 0's copy overwrote the values of rank 1"},
       .has_annotated_form = true,
       .when_annotated = {.law = "buffers-policy",
                          .cause = "buffer-overwritten-by-0",
                          .ranks = {1},
                          .tensor = "queue"}},
      {.id = "validated-in-training-mode",
       .ranks = 3,
       .program = validated_in_training_mode,
       .expected = {.law = "buffers-policy",
                    .cause = "batch-norm-uneven",
                    .ranks = {0},
                    .step = 1,
                    .tensor = "norm.num_batches_tracked"}},
      {.id = "frozen-on-one-rank",
       .ranks = 3,
       .program = frozen_on_one_rank,
       .expected = {.law = "buffers-policy",
                    .cause = "batch-norm-uneven",
                    .ranks = {1},
                    .step = 1,
                    .tensor = "norm.num_batches_tracked"}},
      {.id = "ema-drift",
       .program = ema_drift,
       .expected = {.law = "replicas-equal", .cause = "ema-drift", .ranks = {1}, .step = 1},
       .has_annotated_form = true},
      {.id = "nongrad-param-drift",
       .program = nongrad_param_drift,
       .expected = {.law = "replicas-equal",
                    .cause = "nongrad-param-drift",
                    .ranks = {1},
                    .tensor = "target.weight"}},
      {.id = "grow-rng-clone",
       .ranks = 4,
       .program = grow_rng_clone,
       .expected = {.law = "rng-scopes", .cause = "rng-same-dropout", .ranks = {2, 3}}},
      {.id = "corrupt-replica-ckpt",
       .ranks = 3,
       .program = corrupt_replica_ckpt,
       .expected =
           {.law = "optimizer-equal", .cause = "corrupt-replica-ckpt", .ranks = {1}, .step = 2}},
      {.id = "parameters-listed-otherwise",
       .program = parameters_listed_otherwise,
       .expected = {.law = "optimizer-equal", .cause = "lr-per-rank", .ranks = {1}, .step = 0}},
  };
}

}  // namespace lockstep::programs
