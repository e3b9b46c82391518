// Answers jobs of tests/live/hooks.py, one per line: each rank's gradients after each backward
// under a communication hook, and its calls. `hooks_probe MISTAKE` gives almost right answers;
// `hooks_probe MISTAKE FILE` compares its answers with those in FILE, "job : answer", instead.
#include <cmath>
#include <map>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/random/uniform.h"
#include "lockstep/sim/session/session.h"

#include "tests/ddp/tiny_model.h"
#include "tests/golden/golden_bits.h"
#include "tests/live/answers.h"
#include "tests/programs/run.h"

namespace lockstep {
namespace {

/// One line: words "key=value".
class HookJob {
 public:
  explicit HookJob(const std::string& line) {
    for (const std::string_view word : split(line, ' ')) {
      const std::size_t equals = word.find('=');
      values_[std::string(word.substr(0, equals))] = word.substr(equals + 1);
    }
    for (const std::string_view text : split(values_.at("shapes"), ',')) {
      std::vector<std::int64_t> sizes;
      for (const std::string_view size : split(text, 'x')) sizes.push_back(*parse_int(size));
      shapes_.emplace_back(std::span<const std::int64_t>(sizes));
    }
    for (const std::string_view n : split(values_.at("steps"), ',')) {
      n_steps_.push_back(*parse_int(n));
    }
  }

  std::int64_t number(const std::string& key) const { return *parse_int(values_.at(key)); }

  const std::vector<Shape>& shapes() const { return shapes_; }

  std::int64_t n_steps(std::int32_t rank) const { return n_steps_[static_cast<std::size_t>(rank)]; }

  DType dtype() const { return values_.at("dtype") == "f64" ? DType::kF64 : DType::kF32; }

  HookSpec hook() const {
    HookSpec spec;
    spec.kind = parse_enum<HookKind>(values_.at("hook")).value();
    spec.wrapper = parse_enum<HookWrapper>(values_.at("wrapper")).value();
    spec.power_sgd = {.rank = number("rank"),
                      .start_iter = number("start"),
                      .min_compression_rate = static_cast<double>(number("rate")) / 4,
                      .error_feedback = number("feedback") != 0,
                      .warm_start = number("warm") != 0,
                      .orthogonalization_epsilon = number("eps") != 0 ? 0x1p-10 : 0.0,
                      .seed = static_cast<std::uint32_t>(number("hookseed")),
                      .batch_same_shapes = number("batch") != 0};
    spec.local_sgd = {.subgroup = static_cast<std::int32_t>(number("subgroup")),
                      .start_iter = number("start"),
                      .gradient_allreduce = number("inside") != 0};
    spec.channel = number("channel");
    return spec;
  }

  /// What the parameter is multiplied by, and so its gradient.
  Tensor factors(Runtime& runtime, std::size_t p, std::int64_t step, std::int32_t rank) const {
    const auto place = static_cast<std::int64_t>(p) * 100 + step * 10 + rank;
    Generator generator(static_cast<std::uint64_t>(number("seed") + place));
    const Tensor out = Tensor::empty(runtime, shapes_[p], dtype());
    if (dtype() == DType::kF64) {
      uniform(generator, out.span<double>(), {.from = -1.0});
    } else {
      uniform(generator, out.span<float>(), {.from = -1.0});
    }
    runtime.kernels().scale(out, out, std::ldexp(1.0, static_cast<int>(number("scale"))));
    return out;
  }

 private:
  std::map<std::string, std::string> values_;
  std::vector<Shape> shapes_;
  std::vector<std::int64_t> n_steps_;
};

HookSpec with_mistake(HookSpec spec, const std::string& mistake) {
  if (mistake == "other-seed") ++spec.power_sgd.seed;
  if (mistake == "forgets-errors") spec.power_sgd.error_feedback = false;
  if (mistake == "other-width") {
    if (spec.kind == HookKind::kFp16) spec.kind = HookKind::kBf16;
    if (spec.wrapper == HookWrapper::kFp16) spec.wrapper = HookWrapper::kBf16;
  }
  if (mistake == "without-wrapper") spec.wrapper = HookWrapper::kNone;
  if (mistake == "late-start") ++spec.local_sgd.start_iter;
  if (mistake == "other-channel") spec.channel += 1;
  return spec;
}

/// Hexadecimal words; a NaN only as such.
std::string words_of(const Tensor& tensor) {
  std::vector<std::string> words = golden::bits_of(tensor);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const double value = tensor.at(static_cast<std::int64_t>(i));
    if (value == 0.0) words[i].assign(words[i].size(), '0');
    if (std::isnan(value)) words[i] = "nan";
  }
  return join(words, " ");
}

class HookRun {
 public:
  HookRun(const HookJob& job, const std::string& mistake, RankContext& context)
      : job_(job), context_(context), model_(context.runtime()) {
    for (std::size_t p = 0; p < job.shapes().size(); ++p) {
      model_.parameters.push_back(
          {"p" + std::to_string(p),
           Variable(Tensor::zeros(context.runtime(), job.shapes()[p], job.dtype()), true)});
    }
    DdpOptions options{.site = {}};
    if (job.number("cap") >= 0) {
      options.bucket_cap_mb = static_cast<double>(job.number("cap")) / 0x1p20;
      options.first_bucket_bytes = job.number("cap");
    }
    ddp_.emplace(model_.state(), context.world(), options);
    const HookSpec spec = with_mistake(job.hook(), mistake);
    hook_ = make_comm_hook(spec, context.world()).value();
    ddp_->register_comm_hook(*hook_);
  }

  void all(std::map<std::string, std::string>& answer) {
    if (job_.number("join") == 0) return steps(answer);
    Join join({&*ddp_}, {});
    join.run([&] { steps(answer); });
  }

 private:
  void steps(std::map<std::string, std::string>& answer) {
    const std::int32_t rank = context_.rank();
    for (std::int64_t step = 0; step < job_.n_steps(rank); ++step) {
      testing::forward_backward(*ddp_, [&] { return loss(step); });
      std::vector<std::string> grads;
      for (const NamedVariable& one : model_.parameters) {
        grads.push_back(words_of(one.variable.grad()));
        one.variable.set_grad(Tensor());
      }
      answer["g " + std::to_string(rank) + " " + std::to_string(step)] = join(grads, ",");
    }
  }

  Variable loss(std::int64_t step) {
    Variable total;
    for (std::size_t p = 0; p < model_.parameters.size(); ++p) {
      const Tensor factors = job_.factors(context_.runtime(), p, step, context_.rank());
      const Variable term = sum(mul(model_.parameters[p].variable, Variable(factors)));
      total = total.defined() ? add(total, term) : term;
    }
    return total;
  }

  const HookJob& job_;
  RankContext& context_;
  testing::TinyModel model_;
  std::unique_ptr<CommHook> hook_;  // Outlives ddp_.
  std::optional<Ddp> ddp_;
};

std::string answer_job(sim::Session& session, const HookJob& job, const std::string& mistake) {
  std::map<std::string, std::string> answer;
  sim::SessionOptions options;
  options.n_ranks = static_cast<std::int32_t>(job.number("world"));
  options.group.order = ReductionOrder::kGlooRing;
  const auto result = session.run(
      options, [&](RankContext& context) { HookRun(job, mistake, context).all(answer); });
  if (!result.ok()) return "x=" + result.error().text();
  std::string text;
  for (std::int32_t rank = 0; rank < options.n_ranks; ++rank) {
    answer["c " + std::to_string(rank)] =
        join(programs::calls_of(*result.value().trace, rank), ",");
  }
  for (const auto& [key, value] : answer) text += (text.empty() ? "" : ";") + key + "=" + value;
  return text;
}

}  // namespace
}  // namespace lockstep

int main(int n_words, char** words) {
  lockstep::sim::Session session;
  const auto answer = [&](const std::string& line, const std::string& mistake) {
    return lockstep::answer_job(session, lockstep::HookJob(line), mistake);
  };
  return lockstep::live::answer_all(n_words, words, answer);
}
