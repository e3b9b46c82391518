// Time of one data-parallel training step on a GPU: a network of linear layers, one process per
// rank, the nccl backend. Prints one line of JSON; bench/gpu_side_by_side.py also runs PyTorch.
//
//   gpu_step_bench [WIDTH LAYERS BATCH STEPS]
//
// Ranks come from the launcher's variables; without a launcher it is one rank. Ends with 3, and one
// sentence, where there is no GPU or no way to use it.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <vector>

#include "lockstep/ddp/ddp.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/random/generator.h"
#include "lockstep/real/session/rank_session.h"

namespace {

using lockstep::Tensor;
using lockstep::Variable;
using Clock = std::chrono::steady_clock;

struct Sizes {
  std::int64_t width = 2048;
  std::int64_t layers = 4;
  std::int64_t batch = 512;
  std::int64_t steps = 50;
};

constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kWarmUp = 10;

/// Seconds of each step after the warm-up, kernels and communication included.
std::vector<double> train(lockstep::RankContext& context, const Sizes& sizes) {
  lockstep::Runtime& runtime = context.runtime();
  lockstep::Generator generator(1);
  lockstep::nn::Sequential model(runtime);
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    model.append<lockstep::nn::Linear>(
        sizes.width, sizes.width, lockstep::nn::LinearOptions{}, generator);
    model.append<lockstep::nn::ReLU>();
  }
  model.append<lockstep::nn::Linear>(
      sizes.width, kClasses, lockstep::nn::LinearOptions{}, generator);
  lockstep::DistributedDataParallel ddp(model, context.world());
  lockstep::optim::Sgd optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const Variable x(Tensor::full(runtime, {sizes.batch, sizes.width}, lockstep::DType::kF32, 0.25));
  const Tensor labels = Tensor::full(runtime, {sizes.batch}, lockstep::DType::kI64, 3.0);
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(sizes.steps));
  for (std::int64_t step = 0; step < kWarmUp + sizes.steps; ++step) {
    const auto begin = Clock::now();
    optimizer.zero_grad();
    lockstep::cross_entropy(ddp(x), labels, static_cast<double>(sizes.batch)).backward();
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

void print(std::vector<double> seconds, const Sizes& sizes, std::int32_t n_ranks) {
  std::sort(seconds.begin(), seconds.end());
  std::printf(
      "{\"seconds_per_step\": %.9f, \"fastest\": %.9f, \"steps\": %zu, \"ranks\": %d, "
      "\"width\": %lld, \"layers\": %lld, \"batch\": %lld, \"device\": \"%s\"}\n",
      seconds[seconds.size() / 2],
      seconds.front(),
      seconds.size(),
      n_ranks,
      static_cast<long long>(sizes.width),
      static_cast<long long>(sizes.layers),
      static_cast<long long>(sizes.batch),
      lockstep::cuda::device_info(0).name.c_str());
}

int run(const Sizes& sizes) {
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
        seconds = train(context, sizes);
      });
  if (!result.ok()) return explain(result.error().text());
  if (result.value().exception != nullptr) std::rethrow_exception(result.value().exception);
  if (options.backend.place.rank == 0) print(seconds, sizes, options.backend.place.world_size);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  std::int64_t* const numbers[] = {&sizes.width, &sizes.layers, &sizes.batch, &sizes.steps};
  if (argc > 5) return explain("at most four numbers: WIDTH LAYERS BATCH STEPS");
  for (int i = 1; i < argc; ++i) {
    if (!read(argv[i], *numbers[i - 1]))
      return explain("not a positive number: " + std::string(argv[i]));
  }
  try {
    return run(sizes);
  } catch (const std::exception& error) {
    return explain(error.what());
  }
}
