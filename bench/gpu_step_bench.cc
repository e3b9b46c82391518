// Time of one data-parallel training step on a GPU, one process per rank, the nccl backend. Prints one
// line of JSON; bench/gpu_side_by_side.py also runs PyTorch.
//
//   gpu_step_bench [mlp|cnn|gpt] [STEPS]
//
// Ranks come from the launcher's variables; without a launcher it is one rank. Ends with 3, and one
// sentence, where there is no GPU or no way to use it.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "lockstep/ddp/ddp.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/models/gpt.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/pooling.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/random/generator.h"
#include "lockstep/real/session/rank_session.h"

namespace {

using lockstep::Runtime;
using lockstep::Tensor;
using lockstep::Variable;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kWarmUp = 10;

/// A network with the batch that it is trained on, the same in every step.
struct Job {
  std::unique_ptr<lockstep::nn::Module> model;
  Variable x;
  Tensor labels;
};

void append_linear(lockstep::nn::Sequential& model,
                   std::int64_t in,
                   std::int64_t out,
                   lockstep::Generator& generator) {
  model.append<lockstep::nn::Linear>(in, out, generator);
}

/// Four layers of 2,048, with ReLU, on 512 rows: matrix products.
Job mlp(Runtime& runtime, lockstep::Generator& generator) {
  constexpr std::int64_t kWidth = 2048;
  constexpr std::int64_t kRows = 512;
  auto model = std::make_unique<lockstep::nn::Sequential>(runtime);
  for (int layer = 0; layer < 4; ++layer) {
    append_linear(*model, kWidth, kWidth, generator);
    model->append<lockstep::nn::ReLU>();
  }
  append_linear(*model, kWidth, kClasses, generator);
  return {std::move(model),
          Variable(Tensor::full(runtime, {kRows, kWidth}, lockstep::DType::kF32, 0.25)),
          Tensor::full(runtime, {kRows}, lockstep::DType::kI64, 3.0)};
}

/// Four convolutions with batch norm on 128 images of 32 x 32.
Job cnn(Runtime& runtime, lockstep::Generator& generator) {
  constexpr std::int64_t kImages = 128;
  auto model = std::make_unique<lockstep::nn::Sequential>(runtime);
  std::int64_t in = 3;
  for (const std::int64_t out : {64, 64, 128, 128}) {
    model->append<lockstep::nn::Conv2d>(
        in, out, generator, lockstep::nn::Conv2dOptions{.padding = 1});
    model->append<lockstep::nn::BatchNorm2d>(out);
    model->append<lockstep::nn::ReLU>();
    if (in == 64 && out == 64) model->append<lockstep::nn::MaxPool2d>(lockstep::nn::tile(2));
    in = out;
  }
  model->append<lockstep::nn::GlobalAvgPool2d>();
  model->append<lockstep::nn::Flatten>();
  append_linear(*model, in, kClasses, generator);
  return {std::move(model),
          Variable(Tensor::full(runtime, {kImages, 3, 32, 32}, lockstep::DType::kF32, 0.25)),
          Tensor::full(runtime, {kImages}, lockstep::DType::kI64, 3.0)};
}

/// Four blocks of 256 with 8 heads on 16 sequences of 128 tokens.
Job gpt(Runtime& runtime, lockstep::Generator& generator) {
  constexpr std::int64_t kSequences = 16;
  constexpr std::int64_t kTokens = 128;
  auto model = std::make_unique<lockstep::nn::Gpt>(
      runtime,
      lockstep::nn::GptOptions{
          .vocab = 512, .context = kTokens, .layers = 4, .heads = 8, .width = 256});
  model->reset_parameters(generator);
  return {std::move(model),
          Variable(Tensor::full(runtime, {kSequences, kTokens}, lockstep::DType::kI64, 7.0)),
          Tensor::full(runtime, {kSequences * kTokens}, lockstep::DType::kI64, 3.0)};
}

using MakeJob = Job (*)(Runtime&, lockstep::Generator&);

struct Options {
  std::string_view model = "mlp";
  MakeJob make = mlp;
  std::int64_t steps = 50;
};

/// Seconds of each step after the warm-up, kernels and communication included.
std::vector<double> train(lockstep::RankContext& context, const Options& options) {
  lockstep::Runtime& runtime = context.runtime();
  lockstep::Generator generator(1);
  const Job job = options.make(runtime, generator);
  lockstep::DistributedDataParallel ddp(*job.model, context.world());
  lockstep::optim::Sgd optimizer(job.model->parameters(), {.lr = 0.01, .momentum = 0.9});
  const auto rows = static_cast<double>(job.labels.n_elems());
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(options.steps));
  for (std::int64_t step = 0; step < kWarmUp + options.steps; ++step) {
    const auto begin = Clock::now();
    optimizer.zero_grad();
    lockstep::cross_entropy(ddp(job.x), job.labels, rows).backward();
    optimizer.step();
    runtime.settle();
    const std::chrono::duration<double> span = Clock::now() - begin;
    if (step >= kWarmUp) seconds.push_back(span.count());
  }
  return seconds;
}

int explain(const std::string& reason) {
  std::fprintf(stderr, "gpu_step_bench: %s\n", reason.c_str());
  return 3;
}

bool read(const char* text, std::int64_t& number) {
  const char* const end = text + std::strlen(text);
  return std::from_chars(text, end, number).ptr == end && number > 0;
}

void print(std::vector<double> seconds, const Options& options, std::int32_t n_ranks) {
  std::sort(seconds.begin(), seconds.end());
  std::printf(
      "{\"seconds_per_step\": %.9f, \"fastest\": %.9f, \"steps\": %zu, \"ranks\": %d, "
      "\"model\": \"%s\", \"device\": \"%s\"}\n",
      seconds[seconds.size() / 2],
      seconds.front(),
      seconds.size(),
      n_ranks,
      std::string(options.model).c_str(),
      lockstep::cuda::device_info(0).name.c_str());
}

int run(const Options& chosen) {
  const auto backend = lockstep::find_backend("nccl");
  if (!backend.ok()) return explain(backend.error().text());
  const std::string obstacle = lockstep::obstacle_of(backend.value());
  if (!obstacle.empty()) return explain(obstacle);
  const auto place = lockstep::read_launch_environment(lockstep::process_environment());
  if (!place.ok()) return explain(place.error().text());
  lockstep::RankSessionOptions options;
  lockstep::LaunchEnvironment alone;
  alone.run_id = "bench-" + std::to_string(::getpid());
  options.backend.place = place.value().value_or(alone);
  options.backend.rendezvous =
      lockstep::rendezvous_folder(options.backend.place, lockstep::process_environment());
  std::filesystem::create_directories(options.backend.rendezvous);
  options.backend.check_signatures = false;
  options.record = false;
  std::vector<double> seconds;
  const auto result =
      lockstep::run_this_rank(backend.value(), options, [&](lockstep::RankContext& context) {
        seconds = train(context, chosen);
      });
  if (!result.ok()) return explain(result.error().text());
  if (result.value().exception != nullptr) std::rethrow_exception(result.value().exception);
  if (options.backend.place.rank == 0) print(seconds, chosen, options.backend.place.world_size);
  return 0;
}

struct Named {
  std::string_view name;
  MakeJob make;
};

constexpr Named kModels[] = {{"mlp", mlp}, {"cnn", cnn}, {"gpt", gpt}};

bool read_words(int argc, char** argv, Options& options) {
  bool known = argc < 2;
  for (const Named& model : kModels) {
    if (known || model.name != argv[1]) continue;
    options.model = model.name;
    options.make = model.make;
    known = true;
  }
  return known && argc <= 3 && (argc < 3 || read(argv[2], options.steps));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_words(argc, argv, options)) {
    static_cast<void>(explain("usage: gpu_step_bench [mlp|cnn|gpt] [STEPS]"));
    return 2;  // Not 3, which is taken for a machine without a GPU.
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    return explain(error.what());
  }
}
