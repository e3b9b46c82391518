// Runs one GPT as gpt_reference.py describes it and checks that its numbers are in given balls.
#pragma once

#include <bit>
#include <cmath>
#include <istream>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/models/gpt.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/losses.h"

namespace lockstep::golden {

/// The next word as the bits of a double, or of a float when it is half as long.
inline double read_bits(std::istream& words) {
  std::string word;
  words >> word;
  const std::uint64_t bits = parse_hex64(word).value();
  if (word.size() == 16) return std::bit_cast<double>(bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

inline Tensor read_tensor(std::istream& words, Runtime& runtime, const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.n_elems()));
  for (double& value : values) value = read_bits(words);
  return Tensor::of(runtime, shape, dtype, values);
}

/// Compares each element with the next centre and radius. Returns "ok" or the first one outside.
inline std::string inside_balls(std::istream& words, const std::vector<Tensor>& tensors) {
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    for (std::int64_t i = 0; i < tensors[k].n_elems(); ++i) {
      const double centre = read_bits(words);
      const double radius = read_bits(words);
      const double value = tensors[k].at(i);
      if (std::fabs(value - centre) <= radius) continue;
      std::ostringstream complaint;
      complaint.precision(17);
      complaint << "tensor " << k << "[" << i << "] is " << value << ", not " << centre << " +- "
                << radius;
      return complaint.str();
    }
  }
  return "ok";
}

struct GptCase {
  nn::GptOptions options;
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::uint64_t seed = 0;        ///< Of the parameters.
  std::uint64_t masks_seed = 0;  ///< Of the dropout masks.
  std::vector<double> tokens{};  ///< (batch, length)
  std::vector<double> targets{};
};

inline nn::GptOptions read_gpt_options(std::istream& words) {
  nn::GptOptions options;
  words >> options.vocab >> options.context >> options.layers >> options.heads >> options.width >>
      options.tied >> options.dropout;
  return options;
}

inline GptCase read_gpt_case(std::istream& words) {
  GptCase one{.options = read_gpt_options(words)};
  one.options.dtype = DType::kF64;
  words >> one.batch >> one.length >> one.seed >> one.masks_seed;
  for (std::vector<double>* list : {&one.tokens, &one.targets}) {
    list->resize(static_cast<std::size_t>(one.batch * one.length));
    for (double& token : *list) words >> token;
  }
  return one;
}

/// Logits, loss and the gradients of all parameters in their order.
inline std::vector<Tensor> run_gpt(Runtime& runtime, const GptCase& one) {
  nn::Gpt model(runtime, one.options);
  Generator generator(one.seed);
  for (const Variable& parameter : model.parameters()) {
    nn::init::normal(parameter.data(), generator, 0.0, 0.5);
  }
  model.dropout_generator() = Generator(one.masks_seed);
  const Shape shape{one.batch, one.length};
  const Tensor tokens = Tensor::of(runtime, shape, DType::kI64, one.tokens);
  const Tensor targets = Tensor::of(runtime, {one.batch * one.length}, DType::kI64, one.targets);

  const Variable logits = model(Variable(tokens));
  const Variable loss = nn::CrossEntropyLoss()(logits, targets);
  loss.backward();

  std::vector<Tensor> results{logits.data(), loss.data()};
  for (const Variable& parameter : model.parameters()) results.push_back(parameter.grad());
  return results;
}

}  // namespace lockstep::golden
