// Laws of gradients that hold for every MLP, checked where no operation rounds.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/nn/activations.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/sequential.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::Arithmetic;
using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;

struct Net {
  Net(Runtime& runtime, const std::vector<std::int64_t>& widths) : model(runtime) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      if (i > 0) model.append<ReLU>();
      model.append<Linear>(widths[i], widths[i + 1], LinearOptions{.dtype = DType::kF64});
    }
  }

  Sequential model;
};

std::vector<std::int64_t> any_widths() {
  const auto depth = *rc::gen::inRange<std::size_t>(2, 5);
  return *rc::gen::container<std::vector<std::int64_t>>(depth,
                                                        rc::gen::inRange<std::int64_t>(1, 7));
}

Tensor grid_tensor(Runtime& runtime, const Shape& shape, Generator& generator) {
  Tensor tensor = Tensor::empty(runtime, shape, DType::kF64);
  init::grid(tensor, generator);
  return tensor;
}

// Summed losses: what each half of a batch contributes adds up to the whole.
std::vector<double> gradients(
    Net& net, const Tensor& x, const Tensor& target, std::int64_t first, std::int64_t n) {
  net.model.zero_grad();
  const Variable y = net.model(Variable(x.rows(first, n)));
  MSELoss(Reduction::kSum)(y, target.rows(first, n)).backward();
  std::vector<double> all;
  for (const Variable& parameter : net.model.parameters()) {
    for (const double value : values_of(parameter.grad())) all.push_back(value);
  }
  return all;
}

RC_GTEST_PROP(MlpProperty, GradientsOfTwoHalvesAddUpToTheWhole, ()) {
  const auto widths = any_widths();
  const auto batch = *rc::gen::inRange<std::int64_t>(2, 9);
  const auto cut = *rc::gen::inRange<std::int64_t>(1, batch);
  Generator generator(*rc::gen::arbitrary<std::uint32_t>());
  PlainRuntime rt(Arithmetic::kExact);
  Net net(rt, widths);
  init::grid(net.model, generator);
  const Tensor x = grid_tensor(rt, {batch, widths.front()}, generator);
  const Tensor target = grid_tensor(rt, {batch, widths.back()}, generator);

  const auto whole = gradients(net, x, target, 0, batch);
  const auto first = gradients(net, x, target, 0, cut);
  auto sum = gradients(net, x, target, cut, batch - cut);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += first[i];

  RC_ASSERT(sum == whole);
}

RC_GTEST_PROP(MlpProperty, TwoBackwardsAccumulateWhatTheyGiveAlone, ()) {
  const auto widths = any_widths();
  Generator generator(*rc::gen::arbitrary<std::uint32_t>());
  PlainRuntime rt(Arithmetic::kExact);
  Net net(rt, widths);
  init::grid(net.model, generator);
  const Variable x(grid_tensor(rt, {2, widths.front()}, generator));
  const Tensor target = grid_tensor(rt, {2, widths.back()}, generator);

  const Variable loss = L1Loss(Reduction::kSum)(net.model(x), target);
  loss.backward(true);
  std::vector<Tensor> once;
  for (const Variable& parameter : net.model.parameters()) once.push_back(parameter.grad().clone());
  loss.backward();

  const std::vector<Variable> parameters = net.model.parameters();
  for (std::size_t i = 0; i < once.size(); ++i) {
    const Tensor twice = Tensor::empty(rt, once[i].shape(), DType::kF64);
    rt.kernels().scale(twice, once[i], 2.0);
    RC_ASSERT(values_of(parameters[i].grad()) == values_of(twice));
  }
}

RC_GTEST_PROP(MlpProperty, ARepeatedPassHasTheSameBits, ()) {
  const auto widths = any_widths();
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  const auto run = [&](std::size_t shift) {
    Generator generator(seed);
    PlainRuntime rt;
    rt.pool().shift_addresses(shift);
    Net net(rt, widths);
    net.model.reset_parameters(generator);
    const Tensor x = grid_tensor(rt, {4, widths.front()}, generator);
    const Tensor target = grid_tensor(rt, {4, widths.back()}, generator);
    return gradients(net, x, target, 0, 4);
  };

  RC_ASSERT(run(0) == run(192));
}

}  // namespace
}  // namespace lockstep::nn
