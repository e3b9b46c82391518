// Answers the cases of optim.py: the bits of an optimizer's parameter and state, or of a schedule's
// rates and momenta.
#include <iostream>

#include "tests/optim/lr_case.h"
#include "tests/optim/optimizer_case.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;

std::string schedule(const std::vector<std::string>& words) {
  PlainRuntime rt;
  LrCase one(rt.runtime(), std::span(words).subspan(1));
  std::vector<std::string> bits;
  for (const std::int64_t rate : one.rates())
    bits.push_back(hex64(static_cast<std::uint64_t>(rate)));
  return join(bits, " ");
}

/// Arguments: dtype, elements, steps, options; values: the start, then each step's gradient or "-".
std::string optimizer(const golden::Case& one) {
  PlainRuntime rt;
  const DType dtype = parse_enum<DType>(one.arguments.at(0)).value();
  const std::int64_t n = one.integer(1);
  const std::int64_t n_steps = one.integer(2);
  const std::vector<std::string> words = golden::words_of(one.values);
  std::size_t next = 0;
  const auto take = [&] {
    const auto end = next + static_cast<std::size_t>(n);
    const std::vector<std::string> part(words.begin() + static_cast<std::ptrdiff_t>(next),
                                        words.begin() + static_cast<std::ptrdiff_t>(end));
    next = end;
    return golden::WordReader(join(part, " ")).take(rt, Shape{n}, dtype);
  };
  const Variable parameter(take(), true);
  const std::unique_ptr<Optimizer> made = make_optimizer(one, parameter);
  for (std::int64_t step = 0; step < n_steps; ++step) {
    const bool missing = words.at(next) == "-";
    parameter.set_grad(missing ? Tensor() : take());
    if (missing) ++next;
    made->step();
  }
  std::vector<std::string> bits;
  golden::append(bits, parameter.data());
  for (const StateList& list : made->state()) {
    if (!list.is_count && list.tensors[0].defined()) golden::append(bits, list.tensors[0]);
  }
  return join(bits, " ");
}

std::string answer(const std::string& line) {
  const std::vector<std::string> words = golden::words_of(line);
  if (words.at(0) == "schedule") return schedule(words);
  const std::size_t cut = line.find(" : ");
  golden::Case one = golden::case_of(line.substr(0, cut));
  one.values = line.substr(cut + 3);
  return optimizer(one);
}

}  // namespace
}  // namespace lockstep::optim

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << lockstep::optim::answer(line) << '\n';
  }
  return 0;
}
