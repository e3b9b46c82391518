// Answers the cases of attention.py: bits, or "ok" if everything is in the given balls.
#include <iostream>
#include <sstream>
#include <string>

#include "lockstep/functional/attention.h"
#include "lockstep/functional/functions.h"

#include "tests/golden/golden_bits.h"
#include "tests/golden/gpt_case.h"
#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using testing::PlainRuntime;

std::string bits_text(const std::vector<Tensor>& tensors) {
  std::vector<std::string> words;
  // Adding +0 makes every zero positive: its sign is not part of the promise.
  for (const Tensor& tensor : tensors) {
    const Tensor plain = tensor.clone();
    for (std::int64_t i = 0; i < plain.n_elems(); ++i) {
      if (plain.at(i) != 0.0) continue;
      plain.runtime().kernels().fill(plain.slice(i, {}), 0.0);
    }
    golden::append(words, plain);
  }
  return join(words, " ");
}

DType read_dtype(std::istream& words) {
  std::string name;
  words >> name;
  return parse_enum<DType>(name).value();
}

std::string answer_attention(const std::string& kind, std::istream& words, Runtime& runtime) {
  const DType dtype = read_dtype(words);
  std::int64_t n = 0;
  std::int64_t t = 0;
  std::int64_t s = 0;
  std::int64_t d = 0;
  bool causal = false;
  words >> n >> t >> s >> d >> causal;
  const Variable q(golden::read_tensor(words, runtime, {n, t, d}, dtype), true);
  const Variable k(golden::read_tensor(words, runtime, {n, s, d}, dtype), true);
  const Variable v(golden::read_tensor(words, runtime, {n, s, d}, dtype), true);
  const Variable weights(golden::read_tensor(words, runtime, {n, t, d}, dtype));

  const Variable y = attention(q, k, v, {.causal = causal});
  sum(mul(y, weights)).backward();

  const std::vector<Tensor> results{y.data(), q.grad(), k.grad(), v.grad()};
  return kind == "exact" ? bits_text(results) : golden::inside_balls(words, results);
}

std::string answer_loss(std::istream& words, Runtime& runtime) {
  const DType dtype = read_dtype(words);
  std::int64_t n = 0;
  std::int64_t c = 0;
  words >> n >> c;
  const Variable x(golden::read_tensor(words, runtime, {n, c}, dtype), true);
  const Tensor labels = Tensor::empty(runtime, {n}, DType::kI64);
  for (std::int64_t& label : labels.span<std::int64_t>()) {
    std::string word;
    words >> word;
    label = std::bit_cast<std::int64_t>(parse_hex64(word).value());
  }
  const Variable loss = nn::CrossEntropyLoss()(x, labels);
  loss.backward();
  return golden::inside_balls(words, {loss.data(), x.grad()});
}

std::string answer_init(std::istream& words, Runtime& runtime) {
  nn::Gpt model(runtime, golden::read_gpt_options(words));
  std::uint64_t seed = 0;
  words >> seed;
  Generator generator(seed);
  model.reset_parameters(generator);
  std::vector<std::string> bits;
  for (const Variable& parameter : model.parameters()) golden::append(bits, parameter.data());
  return join(bits, " ");
}

std::string answer(std::istringstream& words) {
  PlainRuntime plain;
  std::string kind;
  words >> kind;
  if (kind == "exact" || kind == "smooth") return answer_attention(kind, words, plain);
  if (kind == "loss") return answer_loss(words, plain);
  if (kind == "init") return answer_init(words, plain);
  const golden::GptCase gpt = golden::read_gpt_case(words);
  return golden::inside_balls(words, golden::run_gpt(plain, gpt));
}

}  // namespace
}  // namespace lockstep

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::cout << lockstep::answer(words) << '\n';
  }
  return 0;
}
