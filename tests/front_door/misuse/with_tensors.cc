// Tensors and variables of sizes, types and states that make no sense.
#include <array>
#include <iostream>
#include <limits>
#include <lockstep/nn.h>
#include <vector>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

int makes_a_negative_tensor() {
  return on_one([](RankContext& rank) { (void)Tensor::zeros(rank.runtime(), {-3}, DType::kF32); });
}

int makes_a_tensor_whose_bytes_overflow() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {std::int64_t{1} << 62}, DType::kF32);
  });
}

int makes_a_tensor_whose_elements_overflow() {
  return on_one([](RankContext& rank) {
    constexpr std::int64_t kLong = std::int64_t{1} << 32;
    (void)Tensor::zeros(rank.runtime(), {kLong, kLong}, DType::kF32);
  });
}

int reads_beyond_the_end() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {2, 3}, DType::kF32).at(6);
  });
}

int reads_before_the_beginning() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {2, 3}, DType::kF32).at(-1);
  });
}

int reads_another_dtype() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {2}, DType::kF32).data<double>();
  });
}

int reads_a_number_of_many() {
  return on_one(
      [](RankContext& rank) { (void)Tensor::zeros(rank.runtime(), {2}, DType::kF32).item(); });
}

int clones_an_undefined_tensor() {
  return on_one([](RankContext&) { (void)Tensor{}.clone(); });
}

int reads_an_undefined_gradient() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    (void)model.weight().grad().data<float>();
  });
}

int adds_an_undefined_variable() {
  return on_one([](RankContext& rank) {
    const Variable x(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    (void)add(x, Variable{});
  });
}

int forwards_nothing() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    (void)model(Variable{});
  });
}

int takes_the_loss_against_nothing() {
  return on_one([](RankContext& rank) {
    const Variable x(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    (void)mse_loss(x, Tensor{});
  });
}

int asks_the_bias_that_is_not_there() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1, {.bias = false});
    (void)model.bias().data().at(0);
  });
}

int slices_beyond_the_end() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {4}, DType::kF32).slice(3, {2});
  });
}

int slices_far_beyond_the_end() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {4}, DType::kF32)
        .slice(std::numeric_limits<std::int64_t>::max(), {2});
  });
}

int reshapes_to_another_size() {
  return on_one([](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {4}, DType::kF32).reshape({3});
  });
}

int gives_too_few_values() {
  return on_one([](RankContext& rank) {
    const std::array<double, 2> values = {1.0, 2.0};
    (void)Tensor::of(rank.runtime(), {3}, DType::kF32, values);
  });
}

int uses_five_dimensions() {
  return on_one([](RankContext& rank) {
    const std::array<std::int64_t, 5> sizes = {1, 1, 1, 1, 1};
    (void)Tensor::zeros(rank.runtime(), Shape(std::span<const std::int64_t>(sizes)), DType::kF32);
  });
}

int copies_a_slice_of_memory_beyond_its_end() {
  return on_one([](RankContext& rank) {
    const Tensor data = Tensor::zeros(rank.runtime(), {4}, DType::kF32);
    (void)rank.world().all_reduce(Memory::of(data).slice(3, 4)).wait();
  });
}

int adds_other_shapes() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    const Variable b(Tensor::zeros(rank.runtime(), {3}, DType::kF32), true);
    (void)add(a, b);
  });
}

int adds_whole_numbers() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    const Variable b(Tensor::zeros(rank.runtime(), {2}, DType::kI64));
    (void)add(a, b);
  });
}

int feeds_other_features() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    (void)model(Variable(Tensor::zeros(rank.runtime(), {4, 3}, DType::kF32)));
  });
}

int looks_up_a_row_that_is_not_there() {
  return on_one([](RankContext& rank) {
    nn::Embedding table(rank.runtime(), 10, 4);
    const std::array<double, 1> index = {10.0};
    (void)table(Variable(Tensor::of(rank.runtime(), {1}, DType::kI64, index)));
  });
}

int labels_a_class_that_is_not_there() {
  return on_one([](RankContext& rank) {
    const Variable x(Tensor::zeros(rank.runtime(), {1, 3}, DType::kF32), true);
    const std::array<double, 1> label = {3.0};
    (void)cross_entropy(x, Tensor::of(rank.runtime(), {1}, DType::kI64, label));
  });
}

int makes_a_layer_of_negative_width() {
  return on_one([](RankContext& rank) { nn::Linear model(rank.runtime(), 2, -1); });
}

int makes_an_embedding_without_rows() {
  return on_one([](RankContext& rank) { nn::Embedding table(rank.runtime(), -1, 4); });
}

int drops_out_more_than_everything() {
  return on_one([](RankContext& rank) {
    Generator generator(0);
    nn::Dropout dropout(rank.runtime(), 1.5, generator);
  });
}

int convolves_with_a_kernel_larger_than_the_image() {
  return on_one([](RankContext& rank) {
    nn::Conv2d layer(rank.runtime(), 1, 1, {.kernel = 5});
    (void)layer(Variable(Tensor::zeros(rank.runtime(), {1, 1, 3, 3}, DType::kF32)));
  });
}

int backwards_from_many() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    scale(a, 2.0).backward();
  });
}

int backwards_twice() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    const Variable loss = sum(mul(a, a));
    loss.backward();
    loss.backward();
  });
}

int backwards_from_nothing() {
  return on_one([](RankContext&) { Variable{}.backward(); });
}

int requires_a_gradient_of_integers() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kI64), true);
  });
}

int sets_a_gradient_of_another_shape() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    model.weight().set_grad(Tensor::zeros(rank.runtime(), {7}, DType::kF32));
    optimizer.step();
  });
}

int sets_a_gradient_of_another_dtype() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    model.weight().set_grad(Tensor::zeros(rank.runtime(), {1, 2}, DType::kF64));
    optimizer.step();
  });
}

constexpr Misuse kTensorMisuses[] = {
    {"MakesANegativeTensor", ".-3. is not a shape", makes_a_negative_tensor},
    {"MakesATensorWhoseBytesOverflow",
     ".4611686018427387904. is not a shape",
     makes_a_tensor_whose_bytes_overflow},
    {"MakesATensorWhoseElementsOverflow",
     ".4294967296, 4294967296. is not a shape",
     makes_a_tensor_whose_elements_overflow},
    {"ReadsBeyondTheEnd", "element 6 of f32 .2, 3., which has 6", reads_beyond_the_end},
    {"ReadsBeforeTheBeginning",
     "element -1 of f32 .2, 3., which has 6",
     reads_before_the_beginning},
    {"ReadsAnotherDtype", "the elements of f32 .2. cannot be read as f64", reads_another_dtype},
    {"ReadsANumberOfMany",
     "item.. of f32 .2.: it is for tensors of one element",
     reads_a_number_of_many},
    {"ClonesAnUndefinedTensor", "an undefined tensor has no elements", clones_an_undefined_tensor},
    {"ReadsAGradientThatIsNotThere",
     "an undefined tensor has no elements: a gradient is undefined before",
     reads_an_undefined_gradient},
    {"AddsAnUndefinedVariable", "an undefined variable has no values", adds_an_undefined_variable},
    {"ForwardsNothing", "an undefined variable has no values", forwards_nothing},
    {"TakesTheLossAgainstNothing",
     "the loss compares .2. with a target",
     takes_the_loss_against_nothing},
    {"AsksForABiasThatIsNotThere",
     "an undefined variable has no values: .* the bias of a layer without one",
     asks_the_bias_that_is_not_there},
    {"SlicesBeyondTheEnd", "a slice of 2 elements from element 3 on", slices_beyond_the_end},
    {"SlicesFarBeyondTheEnd",
     "a slice of 2 elements from element 9223372036854775807 on",
     slices_far_beyond_the_end},
    {"ReshapesToAnotherSize",
     "cannot reshape f32 .4., which has 4 elements, to .3.",
     reshapes_to_another_size},
    {"GivesTooFewValues", "2 values for a tensor of .3., which has 3", gives_too_few_values},
    {"UsesFiveDimensions",
     ".1, 1, 1, 1, 1. is not a shape: it has at most 4 sizes",
     uses_five_dimensions},
    {"ReducesASliceBeyondTheEnd",
     "elements 3 to 7 of a buffer that has 4",
     copies_a_slice_of_memory_beyond_its_end},
    {"AddsOtherShapes", "must match the size of tensor b .3.", adds_other_shapes},
    {"AddsWholeNumbers", "cannot cast i64 .2. to f32: both are floating-point", adds_whole_numbers},
    {"FeedsOtherFeatures",
     "linear cannot multiply .4, 3. by the transpose of .1, 2.",
     feeds_other_features},
    {"LooksUpARowThatIsNotThere",
     "index 10 is not a row of the table f32 .10, 4., which has 10",
     looks_up_a_row_that_is_not_there},
    {"LabelsAClassThatIsNotThere",
     "row 0 has label 3, but there are 3 classes",
     labels_a_class_that_is_not_there},
    {"MakesALayerOfNegativeWidth", ".-1, 2. is not a shape", makes_a_layer_of_negative_width},
    {"MakesAnEmbeddingOfNegativeRows",
     "the embedding, which has -1",
     makes_an_embedding_without_rows},
    {"DropsOutMoreThanEverything",
     "a dropout probability must be between 0 and 1, not 1.5",
     drops_out_more_than_everything},
    {"ConvolvesWithALargerKernel",
     "the window of .1, 1, 5, 5. is larger than the padded image .1, 1, 3, 3.",
     convolves_with_a_kernel_larger_than_the_image},
    {"BackwardsFromMany",
     "from one element, such as a loss, not from f32 .2.",
     backwards_from_many},
    {"BackwardsTwice",
     "rank 0: .*with_tensors.cc:[0-9]+: .*backward through the graph a second time",
     backwards_twice},
    {"BackwardsFromNothing", "not from an undefined variable", backwards_from_nothing},
    {"RequiresAGradientOfIntegers",
     "only tensors of floating type can require gradients, not i64 .2.",
     requires_a_gradient_of_integers},
    {"SetsAGradientOfAnotherShape",
     "f32 .1, 2. and f32 .7. have 2 and 7 elements",
     sets_a_gradient_of_another_shape},
    {"SetsAGradientOfAnotherDtype",
     "the elements of f64 .1, 2. cannot be read as f32",
     sets_a_gradient_of_another_dtype},
};

}  // namespace

std::span<const Misuse> with_tensors() { return kTensorMisuses; }

}  // namespace lockstep::misuse
