// What is wrapped, reduced and updated are not the same tensors.
#include <memory>
#include <optional>

#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Running statistics come from a file that rank 0 alone can read, and nothing sends them on: with
// `broadcast_buffers` off the wrapper leaves buffers alone from the start.
void init_buffers_skipped(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  const std::vector<NamedVariable> buffers = model.named_buffers();
  if (rank.rank() == 0) rank.runtime().kernels().fill(buffers[0].variable.data(), 0.5);
  if (form.fixed) {
    for (const NamedVariable& buffer : buffers) {
      rank.world().broadcast(Memory::of(buffer.variable.data()), 0).wait_or_throw();
    }
  }
  DistributedDataParallel ddp(model, rank.world(), {.broadcast_buffers = false});
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  train_step(ddp, optimizer, batch_of(rank, 0));
}

// The loop runs on every rank, and nothing in it knows of the others.
void never_wrapped(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  std::optional<DistributedDataParallel<Mlp>> ddp;
  if (form.fixed) ddp.emplace(model, rank.world());
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    if (ddp) {
      train_step(*ddp, optimizer, batch);
    } else {
      train_step(model, optimizer, batch);
    }
  }
}

// Rank 1 runs an older version of the model's file, with another activation. The parameters are the same.
void activation_differs(RankContext& rank, Form form) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  if (form.fixed || rank.rank() == 0) {
    model.append<nn::ReLU>();
  } else {
    model.append<nn::Tanh>();
  }
  model.append<nn::Linear>(4, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

class Scalar final : public nn::Module {
 public:
  explicit Scalar(Runtime& runtime)
      : Module(runtime),
        weight_(register_parameter("weight", Tensor::full(runtime, {1, 4}, DType::kF32, 0.5))) {}

  Variable forward(const Variable& x) override { return linear(x, weight_, Variable()); }

  const Variable& weight() const { return weight_; }

  void to_host_and_back() { weight_ = Variable(weight_.data().clone(), true); }

 private:
  Variable weight_;
};

// The model visits the CPU for a snapshot after the first step, and what comes back are new
// parameters: the wrapper's hooks are on the old ones.
void param_replaced(RankContext& rank, Form form) {
  Scalar model(rank.runtime());
  DistributedDataParallel ddp(model, rank.world());
  auto optimizer =
      std::make_unique<optim::Sgd>(std::vector{model.weight()}, optim::SgdOptions{.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    if (step == 1 && form.fixed) {
      const Tensor on_host = model.weight().data().clone();
      rank.runtime().kernels().copy(model.weight().data(), on_host);
    } else if (step == 1) {
      model.to_host_and_back();
      optimizer =
          std::make_unique<optim::Sgd>(std::vector{model.weight()}, optim::SgdOptions{.lr = 0.125});
    }
    train_step(ddp, *optimizer, batch_of(rank, step));
  }
}

class TwoLayers final : public nn::Module {
 public:
  explicit TwoLayers(Runtime& runtime)
      : Module(runtime),
        body_(register_parameter("body", Tensor::full(runtime, {4, 4}, DType::kF32, 0.25))),
        head_(register_parameter("head", Tensor::full(runtime, {1, 4}, DType::kF32, 0.5))) {}

  Variable forward(const Variable& x) override {
    return linear(linear(x, body_, Variable()), head_, Variable());
  }

  std::vector<Variable> trained() const { return {body_, head_}; }

  void replace_head() {
    head_ = Variable(Tensor::full(body_.data().runtime(), {1, 4}, DType::kF32, 0.125), true);
  }

 private:
  Variable body_;
  Variable head_;
};

// Fine-tuning: another head after the model was wrapped. The search for unused parameters finds the
// old head unused, and the wrapper knows of no new one. Repaired, its gradient is averaged by hand.
void head_replaced(RankContext& rank, Form form) {
  TwoLayers model(rank.runtime());
  DistributedDataParallel ddp(model, rank.world(), {.find_unused_parameters = true});
  model.replace_head();
  optim::Sgd optimizer(model.trained(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    if (form.fixed) {
      const Tensor& grad = model.trained().back().grad();
      rank.world().all_reduce(Memory::of(grad), ReduceOp::kAvg).wait_or_throw();
    }
    optimizer.step();
  }
}

// The first layer is frozen while the head warms up, and thawed without wrapping again: the set of
// reduced parameters was fixed when the model was wrapped.
void unfreeze_after_wrap(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const auto set_trainable = [&model](bool on) {
    for (const Variable& parameter : model.first().parameters()) parameter.set_requires_grad(on);
  };
  set_trainable(false);
  std::optional<DistributedDataParallel<Mlp>> ddp;
  ddp.emplace(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  train_step(*ddp, optimizer, batch_of(rank, 0));

  set_trainable(true);
  if (form.fixed) {
    ddp.reset();
    ddp.emplace(model, rank.world());
  }
  train_step(*ddp, optimizer, batch_of(rank, 1));
}

// The optimizer was given the parameters of the model that was then copied to the device.
void optimizer_stale(RankContext& rank, Form form) {
  Scalar loaded(rank.runtime());
  Scalar on_device(rank.runtime());
  optim::Sgd optimizer(form.fixed ? on_device.parameters() : loaded.parameters(), {.lr = 0.125});
  DistributedDataParallel ddp(on_device, rank.world());
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

}  // namespace

std::vector<Bug> start_bugs() {
  return {
      {.id = "init-buffers-skipped",
       .program = init_buffers_skipped,
       .expected = {.law = "init-equal",
                    .cause = "init-buffers-skipped",
                    .ranks = {1},
                    .step = 0,
                    .tensor = "norm.running_mean"}},
      {.id = "never-wrapped",
       .program = never_wrapped,
       .expected = {.law = "replicas-equal", .ranks = {1}, .step = 0, .tensor = "first.weight"}},
      {.id = "activation-differs",
       .program = activation_differs,
       .expected = {.law = "environment-bijective", .cause = "model-differs", .ranks = {1}}},
      {.id = "param-replaced",
       .program = param_replaced,
       .expected =
           {.law = "trained-set", .cause = "param-replaced", .step = 1, .tensor = "weight"}},
      {.id = "head-replaced",
       .program = head_replaced,
       .expected = {.law = "trained-set", .cause = "param-replaced", .step = 0}},
      {.id = "unfreeze-after-wrap",
       .program = unfreeze_after_wrap,
       .expected = {.law = "trained-set",
                    .cause = "unfreeze-after-wrap",
                    .step = 1,
                    .tensor = "first.weight"}},
      {.id = "optimizer-stale",
       .program = optimizer_stale,
       .expected =
           {.law = "trained-set", .cause = "optimizer-stale", .step = 0, .tensor = "weight"}},
  };
}

}  // namespace lockstep::programs
