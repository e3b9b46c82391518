#include "tests/programs/run.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/base/text.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/tensor/kernels.h"

#include "tests/programs/model.h"

namespace lockstep::programs {

namespace {

// The elements as hexadecimal words of their width.
std::string words_of(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::string text;
  const auto width = static_cast<std::size_t>(size_of(tensor.dtype()));
  const auto* bytes = static_cast<const std::byte*>(tensor.raw());
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.n_elems()); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i * width, width);
    // A zero's sign is the kernels' affair, not DDP's.
    if (is_floating(tensor.dtype()) && tensor.at(static_cast<std::int64_t>(i)) == 0.0) word = 0;
    text += (i == 0 ? "" : " ") + hex64(word).substr(16 - 2 * width);
  }
  return text;
}

// The rows, as they are listed, then their values.
std::string rows_of(const SparseRows& rows) {
  std::string text = "sparse";
  for (std::int64_t k = 0; k < rows.n_entries(); ++k) {
    text += " " + std::to_string(static_cast<std::int64_t>(rows.indices().at(k)));
  }
  return text + "|" + words_of(rows.values());
}

// Averages in a way that is almost right.
class WrongHook final : public CommHook {
 public:
  WrongHook(ProcessGroup& group, Mistake mistake) : group_(&group), mistake_(mistake) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    Kernels& kernels = group_->runtime().kernels();
    // The mean of the running mean and the next rank: 1/4, 1/4, 1/2 for three.
    const std::int32_t n = group_->size();
    const std::int32_t rank = group_->rank();
    double weight = 1.0;
    if (mistake_ == Mistake::kMeanOfMeans) {
      weight = std::ldexp(1.0, rank == 0 ? 1 - n : rank - n);
    }
    kernels.scale(bucket.buffer(), bucket.buffer(), weight);
    group_->all_reduce(Memory::of(bucket.buffer()), ReduceOp::kSum, bucket.op_options())
        .wait_or_throw();
    if (mistake_ == Mistake::kDivideAfter) kernels.div_scalar(bucket.buffer(), bucket.buffer(), n);
    return std::make_unique<Done>(bucket.buffer());
  }

 private:
  class Done final : public PendingBucket {
   public:
    explicit Done(Tensor buffer) : buffer_(std::move(buffer)) {}

    Tensor wait() override { return buffer_; }

   private:
    Tensor buffer_;
  };

  ProcessGroup* group_;
  Mistake mistake_;
};

std::unique_ptr<CommHook> make_hook(const Program& program, Mistake mistake, ProcessGroup& group) {
  if (program.hook.ends_with("allreduce")) return std::make_unique<AllReduceHook>(group);
  if (program.hook.ends_with("fp16")) return std::make_unique<CompressHook>(group, DType::kF16);
  if (program.hook == "noop") return std::make_unique<NoopHook>();
  if (mistake == Mistake::kDivideAfter || mistake == Mistake::kMeanOfMeans) {
    return std::make_unique<WrongHook>(group, mistake);
  }
  return nullptr;
}

DdpOptions ddp_options(const Program& program, const RunSettings& settings) {
  DdpOptions options;
  options.compat = settings.compat;
  options.static_graph = program.static_graph;
  options.find_unused_parameters = program.find_unused;
  options.gradient_as_bucket_view = program.view;
  options.broadcast_buffers = program.broadcast;
  if (program.cap_bytes >= 0 && settings.mistake != Mistake::kOneBucket) {
    options.bucket_cap_mb = static_cast<double>(program.cap_bytes) / 1048576.0;
    options.first_bucket_bytes = program.first_bytes;
  }
  options.ignored = program.ignored;
  if (program.flaw == "devices") options.device_ids = {0, 1};
  return options;
}

// Rank 1 of the flaw "extra" has one branch more than the others.
Program as_rank_has_it(const Program& program, std::int32_t rank) {
  Program own = program;
  if (program.flaw == "extra" && rank == 1) {
    own.branches.push_back({.layers = {{.in = program.in, .out = 1}}});
  }
  return own;
}

class Run {
 public:
  Run(RankContext& context, const Program& program, const RunSettings& settings, Answer& answer)
      : context_(&context),
        program_(as_rank_has_it(program, context.rank())),
        answer_(&answer),
        model_(context.runtime(), program_, context.rank()),
        hook_(make_hook(program_, settings.mistake, context.world())) {
    // Constructing may fail; the model stays.
    options_ = ddp_options(program_, settings);
  }

  void all() {
    try {
      ddp_.emplace(model_, context_->world(), options_);
      if (hook_) ddp_->register_comm_hook(*hook_);
      const auto body = [this] {
        for (std::int64_t step = 0; step < n_steps(); ++step) one_step(step);
      };
      if (program_.join.empty()) {
        body();
      } else {
        Join join({&*ddp_},
                  {.throw_on_early_termination = program_.throws,
                   .divide_by_initial_world_size = program_.divide_initial});
        join.run(body);
        record("end");
      }
    } catch (const std::runtime_error& e) {
      // The place of a PyTorch assertion is not part of its text.
      const std::string text = e.what();
      const std::string_view cut = "INTERNAL ASSERT FAILED";
      const std::size_t at = text.find(cut);
      note("x", "", at == std::string::npos ? text : text.substr(0, at + cut.size()));
    }
  }

 private:
  std::int64_t n_steps() const {
    if (program_.join.empty()) return static_cast<std::int64_t>(program_.steps.size());
    return program_.join[static_cast<std::size_t>(context_->rank())];
  }

  void one_step(std::int64_t step) {
    const char letter = program_.steps[static_cast<std::size_t>(step) % program_.steps.size()];
    micro_step(letter, step);
    const bool updates = std::string_view("sbtr").find(letter) != std::string_view::npos;
    const std::string name = std::to_string(step);
    note("g", name, list_of(model_.named_parameters(), true));
    if (updates) {
      has_reduced_ = true;
      update(model_.named_parameters());
      zero();
    }
    record(name);
  }

  void micro_step(char letter, std::int64_t step) {
    if (letter == 'n') {
      const NoSync no_sync(*ddp_);
      forward(step, 0).backward();
    } else if (letter == 'N') {
      Variable loss;
      {
        const NoSync no_sync(*ddp_);
        loss = forward(step, 0);
      }
      loss.backward();
    } else if (letter == 'b') {
      const Variable loss = forward(step, 0);
      const NoSync no_sync(*ddp_);
      loss.backward();
    } else if (letter == 'e') {
      const NoGradGuard no_grad(context_->runtime());
      forward(step, 0);
    } else if (letter == 'E') {
      forward(step, 0);
    } else if (letter == 't') {
      const Variable first = forward(step, 0);
      const Variable second = forward(step, 1);
      add(first, second).backward();
    } else if (letter == 'r') {
      const Variable loss = forward(step, 0);
      loss.backward(true);
      loss.backward();
    } else if (letter == 'i') {
      model_.loss(model_.forward(step, 0), step, 0).backward();
    } else {
      forward(step, 0).backward();
    }
  }

  Variable forward(std::int64_t step, std::int64_t micro) {
    return model_.loss((*ddp_)(step, micro), step, micro);
  }

  void zero() {
    if (program_.zero == "keep") return;
    for (const NamedVariable& parameter : model_.named_parameters()) {
      Ref<SparseRows>& rows = parameter.variable.state().sparse_grad;
      if (rows) rows = program_.zero == "zero" ? rows->zeroed() : Ref<SparseRows>();
      const Tensor& grad = parameter.variable.grad();
      if (!grad.defined()) continue;
      if (program_.zero == "zero") {
        context_->runtime().kernels().fill(grad, 0.0);
      } else {
        parameter.variable.set_grad(Tensor());
      }
    }
  }

  void note(const std::string& kind, const std::string& name, std::string text) {
    const std::string key = kind + " " + std::to_string(context_->rank());
    (*answer_)[name.empty() ? key : key + " " + name] = std::move(text);
  }

  static std::string list_of(const std::vector<NamedVariable>& variables, bool grads) {
    std::vector<std::string> texts;
    for (const NamedVariable& one : variables) {
      const Ref<SparseRows>& rows = one.variable.state().sparse_grad;
      texts.push_back(grads && rows ? rows_of(*rows)
                                    : words_of(grads ? one.variable.grad() : one.variable.data()));
    }
    return join(texts, ",");
  }

  void record(const std::string& name) {
    note("p", name, list_of(model_.named_parameters(), false));
    note("b", name, list_of(model_.named_buffers(), false));
    // PyTorch shows no layout of buckets one of which is sparse and still empty.
    if (!has_sparse(program_)) note_buckets(name);
    if ((program_.find_unused || program_.static_graph) && has_reduced_) {
      note("u", name, join(ddp_->used_map(), " "));
    }
  }

  std::string first_name(const Variable& parameter) const {
    for (const NamedVariable& one : model_.named_parameters()) {
      if (one.variable == parameter) return one.name;
    }
    return "?";
  }

  void note_buckets(const std::string& name) {
    std::vector<std::string> buckets;
    for (const std::vector<std::int32_t>& bucket : ddp_->buckets()) {
      std::vector<std::string> names;
      for (const std::int32_t index : bucket) {
        names.push_back(first_name(ddp_->parameters()[static_cast<std::size_t>(index)].variable));
      }
      buckets.push_back(join(names, " "));
    }
    note("k", name, join(buckets, "/"));
  }

  RankContext* context_;
  Program program_;
  Answer* answer_;
  ProgramModel model_;
  std::unique_ptr<CommHook> hook_;
  DdpOptions options_;
  std::optional<DistributedDataParallel<ProgramModel>> ddp_;
  bool has_reduced_ = false;  // Before, PyTorch's used map is uninitialised memory.
};

}  // namespace

std::vector<std::string> calls_of(const MemoryTrace& trace, std::int32_t rank) {
  std::vector<std::string> texts;
  for (const Event& event : trace.events(Rank{rank})) {
    const auto* call = std::get_if<CollectiveEvent>(&event.body);
    if (call == nullptr || call->phase != CollectivePhase::kPosted) continue;
    const Signature& signature = call->signature;
    std::string op = "?";
    if (signature.op == CollectiveOp::kAllGather) op = "AG";
    if (signature.op == CollectiveOp::kBroadcast) op = "B" + std::to_string(signature.root);
    if (signature.op == CollectiveOp::kAllReduce) {
      op = signature.reduce == ReduceOp::kMax ? "ARmax" : "AR";
    }
    texts.push_back(op + " " + std::string(name_of(signature.dtype)) + " " +
                    std::to_string(signature.count));
  }
  return texts;
}

std::vector<std::string> calls_in(const Answer& answer, std::int32_t rank) {
  std::vector<std::string> calls;
  const auto found = answer.find("c " + std::to_string(rank));
  if (found == answer.end() || found->second.empty()) return calls;
  for (const std::string_view call : split(found->second, ',')) calls.emplace_back(call);
  return calls;
}

Answer run_program(sim::Session& session, const Program& program, const RunSettings& settings) {
  Answer answer;
  sim::SessionOptions options;
  options.n_ranks = program.world;
  options.strategy = settings.strategy;
  options.schedule_seed = settings.schedule_seed;
  options.group.order =
      settings.mistake == Mistake::kOtherOrder ? ReductionOrder::kRank : ReductionOrder::kGlooRing;
  const Result<sim::SessionResult> result = session.run(options, [&](RankContext& context) {
    Run run(context, program, settings, answer);
    run.all();
  });
  if (!result.ok()) throw std::invalid_argument(result.error().text());
  for (std::int32_t rank = 0; rank < program.world; ++rank) {
    answer["c " + std::to_string(rank)] = join(calls_of(*result.value().trace, rank), ",");
  }
  return answer;
}

std::string text_of(const Answer& answer) {
  std::string text;
  for (const auto& [key, value] : answer) {
    std::string flat = value;
    for (std::size_t at = 0; (at = flat.find('\n', at)) != std::string::npos; at += 2) {
      flat.replace(at, 1, "\\n");
    }
    text += (text.empty() ? "" : ";") + key + "=" + flat;
  }
  return text;
}

}  // namespace lockstep::programs
