// Ranks that do not make the same calls.
#include <map>
#include <memory>
#include <string>

#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Every metric of a dictionary is reduced, but the accuracy is in it only where a batch had pairs.
void key_set_differs(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    std::map<std::string, double> metrics;
    metrics["loss"] = train_step(ddp, optimizer, batch_of(rank, step));
    if (rank.rank() == 0) metrics["accuracy"] = 0.5;
    if (form.fixed) metrics.try_emplace("accuracy", 0.0);
    for (auto& [name, value] : metrics) {
      rank.world().all_reduce(Memory::of(std::span<double>(&value, 1))).wait_or_throw();
    }
  }
}

// Each rank makes the group that it is going to use, and not the other one.
void subgroup_asymmetric(RankContext& rank, Form form) {
  const std::vector<std::int32_t> outer = {0, 3};
  const std::vector<std::int32_t> inner = {1, 2};
  const bool is_outer = rank.rank() == 0 || rank.rank() == 3;
  std::unique_ptr<ProcessGroup> group;
  if (form.fixed) {
    std::unique_ptr<ProcessGroup> first = new_group(rank.world(), outer);
    std::unique_ptr<ProcessGroup> second = new_group(rank.world(), inner);
    group = is_outer ? std::move(first) : std::move(second);
  } else {
    group = new_group(rank.world(), is_outer ? outer : inner);
  }
  summed(*group, 1.0);
}

// Reads its share without damaged rows, and declares the number of rows before it has looked.
class UndamagedRows final : public data::Sampler {
 public:
  UndamagedRows(RankContext& rank, std::int64_t size, bool counts)
      : first_(rank.rank()), stride_(rank.world_size()), size_(size), counts_(counts) {}

  void begin() override { place_ = first_; }

  std::optional<std::int64_t> next() override {
    while (place_ < size_) {
      const std::int64_t sample = place_;
      place_ += stride_;
      if (counts_ || sample != kDamaged) return sample;
    }
    return std::nullopt;
  }

  std::int64_t length() const override { return (size_ - first_ + stride_ - 1) / stride_; }

 private:
  static constexpr std::int64_t kDamaged = 3;

  std::int64_t first_;
  std::int64_t stride_;
  std::int64_t size_;
  bool counts_;  // Damaged rows are yielded, too: they have weight 0 in the loss.
  std::int64_t place_ = 0;
};

class Ids final : public data::SampleReader {
 public:
  void read(std::int64_t /*index*/,
            data::Worker& /*worker*/,
            data::LoadedBatch& /*batch*/) override {}
};

void len_lies(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  UndamagedRows sampler(rank, 6, form.fixed);
  Ids reader;
  auto loader = data::DataLoader::make({.batch_size = 1, .global = &init}, sampler, reader).value();
  loader.begin();
  for (data::LoadedBatch loaded; loader.next(loaded);) {
    train_step(ddp, optimizer, rows_of(rank, loaded.ids));
  }
}

// What an earlier run has left: rank 0 wrote the checkpoint to the disk of its own machine.
std::string earlier_run(RankContext& rank) {
  const std::string path = "machine-" + std::to_string(rank.rank()) + "/last.ckpt";
  if (rank.rank() == 0) save_file(rank, path, "2.5");
  return path;
}

// Each rank resumes if it finds the checkpoint, and rank 1 does not see rank 0's disk.
void resume_path_disagrees(RankContext& rank, Form form) {
  const std::string path = earlier_run(rank);
  bool found = rank.host().files().read(path).ok();
  if (form.fixed) {
    double decision = found ? 1.0 : 0.0;
    rank.world().broadcast(Memory::of(std::span<double>(&decision, 1)), 0).wait_or_throw();
    found = decision > 0.0;
  }
  if (form.annotated) rank.annotate().decision("resume", found ? 1 : 0);
  if (found) {
    const Tensor weights = Tensor::full(rank.runtime(), {8}, DType::kF32, 2.5);
    rank.world().broadcast(Memory::of(weights), 0).wait_or_throw();
  } else {
    std::int64_t seed = 17 + rank.rank();
    rank.world().broadcast(Memory::of(std::span<std::int64_t>(&seed, 1)), 0).wait_or_throw();
  }
}

// One collective per gradient, and rank 1 has none for head B: each rank has its own heads, which
// the wrapper leaves alone.
void clip_collective_set_differs(RankContext& rank, Form form) {
  Generator init(1);
  nn::TwoHead model(rank.runtime(), {.in = 4, .hidden = 4, .out = 1});
  model.reset_parameters(init);
  model.use(rank.rank() == 0 ? nn::Heads::kBoth : nn::Heads::kA);
  DistributedDataParallel ddp(
      model,
      rank.world(),
      {.ignored = {"head_a.weight", "head_a.bias", "head_b.weight", "head_b.bias"}});
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), batch.y).backward();
    double squares = 0.0;
    for (const Variable& parameter : optimizer.parameters()) {
      if (!parameter.has_grad() && !form.fixed) continue;
      const double norm =
          parameter.has_grad() ? rank.runtime().kernels().norm(parameter.grad(), 2.0) : 0.0;
      squares += summed(rank.world(), norm * norm);
    }
    if (squares > 1e6) rank.host().log("gradients explode");
    optimizer.step();
  }
}

// Rank 0 validates in evaluation mode, through the wrapper: it sends its buffers first, and the others have
// ended.
void rank_0_evaluates_wrapped(RankContext& rank, Form form) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (rank.rank() != 0 || step < 1) continue;
    model.eval();
    const NoGradGuard no_grad(rank.runtime());
    const Batch batch = batch_of(rank, 9);
    const Variable output = form.fixed ? model(batch.x) : ddp(batch.x);
    rank.host().log("validation loss " + std::to_string(mse_loss(output, batch.y).item()));
    model.train();
  }
}

// A transport of one's own: it numbers devices by a table and gathers the blocks in that order.
class Transport final : public ProcessGroup {
 public:
  Transport(ProcessGroup& inner, std::vector<std::size_t> devices)
      : inner_(&inner), devices_(std::move(devices)) {}

  Transport(std::unique_ptr<ProcessGroup> inner, std::vector<std::size_t> devices)
      : Transport(*inner, std::move(devices)) {
    owned_ = std::move(inner);
  }

  std::int32_t rank() const override { return inner_->rank(); }

  std::int32_t size() const override { return inner_->size(); }

  std::int32_t id() const override { return inner_->id(); }

  Rank world_rank(std::int32_t group_rank) const override { return inner_->world_rank(group_rank); }

  std::string_view backend() const override { return inner_->backend(); }

  std::string_view reduction_order() const override { return inner_->reduction_order(); }

  Runtime& runtime() override { return inner_->runtime(); }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> ranks, CallSite site) override {
    return std::make_unique<Transport>(inner_->split(ranks, site), devices_);
  }

 protected:
  Work post(const CollectiveCall& call) override {
    const Signature& asked = call.signature;
    const OpOptions options{.site = asked.site};
    if (asked.op == CollectiveOp::kSend) {
      return inner_->send(call.inputs[0], asked.peer, asked.tag, options);
    }
    if (asked.op == CollectiveOp::kRecv) {
      return inner_->recv(call.outputs[0], asked.peer, asked.tag, options);
    }
    if (asked.op == CollectiveOp::kBarrier) return inner_->barrier(options);
    if (asked.op == CollectiveOp::kAllReduce) {
      return inner_->all_reduce(call.outputs[0], asked.reduce, options);
    }
    const std::int64_t n = call.inputs[0].count;
    std::vector<Memory> blocks;
    for (const std::size_t device : devices_) {
      blocks.push_back(call.outputs.size() > 1
                           ? call.outputs[device]
                           : call.outputs[0].slice(static_cast<std::int64_t>(device) * n, n));
    }
    return inner_->all_gather(blocks, call.inputs[0], options);
  }

 private:
  ProcessGroup* inner_;
  std::unique_ptr<ProcessGroup> owned_;
  std::vector<std::size_t> devices_;
};

// Two entries of the table are exchanged, so block 1 of what is gathered came from rank 2.
void wrong_rank_order(RankContext& rank, Form form) {
  const std::vector<std::size_t> devices =
      form.fixed ? std::vector<std::size_t>{0, 1, 2, 3} : std::vector<std::size_t>{0, 2, 1, 3};
  const std::unique_ptr<ProcessGroup> group = make_checked_group(
      std::make_unique<Transport>(rank.world(), devices), Duration{1'000'000'000});
  float own = 10.0F + static_cast<float>(rank.rank());
  std::vector<float> scores(4);
  group->all_gather_into_tensor(Memory::of(std::span(scores)), Memory::of(std::span(&own, 1)))
      .wait_or_throw();
}

}  // namespace

std::vector<Bug> call_bugs() {
  return {
      {.id = "key-set-differs",
       .program = key_set_differs,
       .expected = {.law = "collectives-match", .cause = "call-set-differs"}},
      {.id = "subgroup-asymmetric",
       .ranks = 4,
       .program = subgroup_asymmetric,
       .expected = {.law = "collectives-match",
                    .cause = "subgroup-on-some-ranks",
                    .ranks = {1, 2}}},
      {.id = "len-lies",
       .program = len_lies,
       .expected = {.law = "progress", .cause = "uneven-batches", .ranks = {1}, .step = 2}},
      {.id = "resume-path-disagrees",
       .program = resume_path_disagrees,
       .expected = {.law = "collectives-match", .cause = "resume-path-disagrees"},
       .has_annotated_form = true,
       .when_annotated = {.law = "decisions-uniform",
                          .cause = "resume-path-disagrees",
                          .ranks = {1}}},
      {.id = "clip-collective-set-differs",
       .program = clip_collective_set_differs,
       .expected = {.law = "collectives-match", .cause = "call-set-differs", .step = 0}},
      {.id = "rank-0-evaluates-wrapped",
       .program = rank_0_evaluates_wrapped,
       .expected = {.law = "progress", .cause = "rank0-only-collective", .ranks = {1}, .step = 2}},
      {.id = "wrong-rank-order",
       .ranks = 4,
       .program = wrong_rank_order,
       .expected = {.law = "contract",
                    .says = "block 1 came from rank 2, block 2 came from rank 1"}},
  };
}

}  // namespace lockstep::programs
