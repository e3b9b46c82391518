// Answers jobs of mixed_training.py, one per line: what every rank's scaler did in each step of a
// training under autocast, and the bits it ended with. `mixed_training_probe MISTAKE` gives almost
// right answers; `mixed_training_probe MISTAKE FILE` compares its answers with those in FILE,
// "job : answer", instead.
#include <cstdint>
#include <limits>
#include <map>
#include <memory>

#include "lockstep/autograd/autocast.h"
#include "lockstep/base/text.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/models/gpt.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/pooling.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/sim/session/session.h"

#include "tests/golden/golden_bits.h"
#include "tests/live/answers.h"
#include "tests/programs/program.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kFeatures = 6;
constexpr std::int64_t kOutputs = 2;
constexpr double kInf = std::numeric_limits<double>::infinity();

const nn::GptOptions kGpt{.vocab = 11, .context = 8, .layers = 2, .heads = 2, .width = 16};

/// One line: words "key=value".
class MixedJob {
 public:
  explicit MixedJob(const std::string& line) {
    for (const std::string_view word : split(line, ' ')) {
      const std::size_t equals = word.find('=');
      values_[std::string(word.substr(0, equals))] = word.substr(equals + 1);
    }
  }

  std::int64_t number(const std::string& key) const { return *parse_int(values_.at(key)); }

  std::string model() const { return values_.at("model"); }

  bool is_exact() const { return model() == "exact"; }

  std::uint64_t seed() const { return static_cast<std::uint64_t>(number("seed")); }

  DType dtype() const { return parse_enum<DType>(values_.at("dtype")).value(); }

  /// Whether the loss of this rank overflows in this step: "overflow=7:0,31:1", or "none".
  bool overflows(std::int64_t step, std::int32_t rank) const {
    const std::string here = std::to_string(step) + ":" + std::to_string(rank);
    const std::vector<std::string_view> places = split(values_.at("overflow"), ',');
    return std::find(places.begin(), places.end(), here) != places.end();
  }

  /// A whole number from -n to n that both sides draw.
  double drawn(std::string_view purpose, std::vector<std::int64_t> words, std::int64_t n) const {
    const std::uint64_t word = programs::draw(seed(), purpose, std::move(words));
    const std::uint64_t width = static_cast<std::uint64_t>(2 * n + 1);
    return static_cast<double>(static_cast<std::int64_t>(word % width) - n);
  }

 private:
  std::map<std::string, std::string> values_;
};

/// Two layers, each of which is used twice.
class TwiceUsed final : public nn::Module {
 public:
  explicit TwiceUsed(Runtime& runtime)
      : Module(runtime), first_(runtime, kFeatures, 8), second_(runtime, 8, kOutputs) {
    register_module("first", first_);
    register_module("second", second_);
  }

  Variable forward(const Variable& x) override {
    const Variable once = second_(relu(first_(x)));
    return add(once, second_(relu(first_(scale(x, 2.0)))));
  }

 private:
  nn::Linear first_;
  nn::Linear second_;
};

std::unique_ptr<nn::Module> make_mlp(Runtime& runtime) {
  auto model = std::make_unique<nn::Sequential>(runtime);
  model->append<nn::Linear>(kFeatures, 16);
  model->append<nn::BatchNorm1d>(16);
  model->append<nn::ReLU>();
  model->append<nn::Linear>(16, 16);
  model->append<nn::Tanh>();
  model->append<nn::Linear>(16, kOutputs);
  return model;
}

std::unique_ptr<nn::Module> make_cnn(Runtime& runtime) {
  auto model = std::make_unique<nn::Sequential>(runtime);
  model->append<nn::Unflatten>(Shape{1, 2, 3});
  model->append<nn::Conv2d>(1, 4, nn::Conv2dOptions{.kernel = 3, .padding = 1});
  model->append<nn::BatchNorm2d>(4);
  model->append<nn::ReLU>();
  model->append<nn::Flatten>();
  model->append<nn::Linear>(24, kOutputs);
  return model;
}

std::unique_ptr<nn::Module> make_model(const MixedJob& job, Runtime& runtime) {
  if (job.is_exact()) {
    auto model = std::make_unique<TwiceUsed>(runtime);
    std::int64_t p = 0;
    for (const Variable& parameter : model->parameters()) {
      const std::span<float> values = parameter.data().span<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::vector<std::int64_t> words{p, static_cast<std::int64_t>(i)};
        values[i] = static_cast<float>(job.drawn("initial", words, 4) / 4);
      }
      ++p;
    }
    return model;
  }
  std::unique_ptr<nn::Module> model;
  if (job.model() == "gpt") model = std::make_unique<nn::Gpt>(runtime, kGpt);
  if (job.model() == "cnn") model = make_cnn(runtime);
  if (job.model() == "mlp") model = make_mlp(runtime);
  Generator generator(job.seed());
  model->reset_parameters(generator);
  return model;
}

class MixedRun {
 public:
  MixedRun(const MixedJob& job, const std::string& mistake, RankContext& context)
      : job_(job),
        mistake_(mistake),
        context_(context),
        model_(make_model(job, context.runtime())),
        ddp_(*model_,
             context.world(),
             {.bucket_cap_mb = 512.0 / 0x1p20, .first_bucket_bytes = 512, .site = {}}),
        optimizer_(make_optimizer()),
        scaler_({.init_scale = static_cast<double>(job.number("init")),
                 .backoff_factor = mistake == "backs-off-twice" ? 0.25 : 0.5,
                 .growth_interval = job.number("interval")}) {}

  void all(std::map<std::string, std::string>& answer) {
    std::vector<std::string> steps;
    for (std::int64_t step = 0; step < job_.number("steps"); ++step) steps.push_back(one(step));
    const std::string rank = std::to_string(context_.rank());
    answer["s " + rank] = join(steps, ",");
    answer["k " + rank] = ddp_.logging_data().texts.at("rebuilt_per_bucket_param_indices");
    answer[(job_.is_exact() ? "p " : "~p ") + rank] = golden_words();
    answer["~l " + rank] = join(losses_, " ");
  }

 private:
  std::unique_ptr<optim::Optimizer> make_optimizer() {
    if (job_.model() == "gpt") {
      const optim::AdamWOptions options{
          .lr = 0.001, .weight_decay = 0.0, .compat = Compat::kTorch2};
      return std::make_unique<optim::AdamW>(model_->parameters(), options);
    }
    const optim::SgdOptions options{.lr = job_.is_exact() ? 0.125 : 0.05, .momentum = 0.5};
    auto sgd = std::make_unique<optim::Sgd>(model_->parameters(), options);
    if (job_.is_exact()) sgd->round_each_step({.bits = 2, .limit = 2.0});
    return sgd;
  }

  /// "scale found_inf skipped" after the step.
  std::string one(std::int64_t step) {
    optimizer_->zero_grad();
    const Variable total = loss(step);
    const bool spoilt = job_.overflows(step, context_.rank());
    // Before the reduction an overflow reaches all ranks; after it, one.
    const bool late = mistake_ == "overflows-late";
    const Variable scaled = scaler_.scale(spoilt && !late ? scale(total, kInf) : total);
    scaled.backward();
    if (spoilt && late) overflow_now();
    const bool stepped = scaler_.step(*optimizer_);
    scaler_.update();
    losses_.push_back(golden::bits_of(total.data()).front());
    const auto now = static_cast<float>(scaler_.get_scale());
    return join(golden::bits_of(Tensor::of(context_.runtime(), {1}, DType::kF32, {{now}})), "") +
           (stepped ? " 0 0" : " 1 1");
  }

  void overflow_now() {
    const Tensor& grad = model_->parameters().front().grad();
    context_.runtime().kernels().fill(grad, kInf);
  }

  Variable loss(std::int64_t step) {
    AutocastOptions options{.dtype = job_.dtype(), .cache_enabled = mistake_ != "no-cache"};
    if (mistake_ == "other-dtype") {
      options.dtype = job_.dtype() == DType::kF16 ? DType::kBF16 : DType::kF16;
    }
    const AutocastGuard autocast(context_.runtime(), options);
    if (job_.model() == "gpt") {
      const Tensor tokens = drawn("tokens", {kRows, kGpt.context}, step, 5, 5.0);
      const Tensor labels = drawn("labels", {kRows * kGpt.context}, step, 5, 5.0).to(DType::kI64);
      return nn::CrossEntropyLoss()(ddp_(Variable(tokens)), labels);
    }
    const Tensor x = drawn("x", {kRows, kFeatures}, step, 1, 0.0);
    const Tensor target = drawn("target", {kRows, kOutputs}, step, 8, 0.0);
    return mse_loss(ddp_(Variable(x)), target);
  }

  /// Whole numbers from offset - n to offset + n.
  Tensor drawn(std::string_view purpose,
               const Shape& shape,
               std::int64_t step,
               std::int64_t n,
               double offset) const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape.n_elems(); ++i) {
      values.push_back(job_.drawn(purpose, {context_.rank(), step, i}, n) + offset);
    }
    return Tensor::of(context_.runtime(), shape, DType::kF32, values);
  }

  std::string golden_words() const {
    std::vector<std::string> words;
    for (const Variable& parameter : model_->parameters()) {
      golden::append(words, parameter.data());
    }
    for (std::string& word : words) {
      if (word == "80000000") word = "00000000";
    }
    return join(words, " ");
  }

  const MixedJob& job_;
  const std::string& mistake_;
  RankContext& context_;
  std::unique_ptr<nn::Module> model_;
  DistributedDataParallel<nn::Module> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::GradScaler scaler_;
  std::vector<std::string> losses_;
};

std::string answer_job(sim::Session& session, const MixedJob& job, const std::string& mistake) {
  std::map<std::string, std::string> answer;
  sim::SessionOptions options;
  options.n_ranks = static_cast<std::int32_t>(job.number("world"));
  options.group.order = ReductionOrder::kGlooRing;
  const auto result = session.run(
      options, [&](RankContext& context) { MixedRun(job, mistake, context).all(answer); });
  if (!result.ok()) return "x=" + result.error().text();
  std::string text;
  for (const auto& [key, value] : answer) text += (text.empty() ? "" : ";") + key + "=" + value;
  return text;
}

/// What PyTorch promises in every bit: all but parts that begin with ~.
std::string promised(const std::string& answer) {
  std::string kept;
  for (const std::string_view part : split(answer, ';')) {
    if (!part.starts_with('~')) kept += std::string(part) + ";";
  }
  return kept;
}

}  // namespace
}  // namespace lockstep

int main(int n_words, char** words) {
  lockstep::sim::Session session;
  const auto answer = [&](const std::string& line, const std::string& mistake) {
    return lockstep::answer_job(session, lockstep::MixedJob(line), mistake);
  };
  return lockstep::live::answer_all(n_words, words, answer, lockstep::promised);
}
