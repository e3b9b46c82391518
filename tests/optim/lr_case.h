// Schedules as words: tests/golden/lr_cases.py says what they mean.
#pragma once

#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/reduce_lr_on_plateau.h"
#include "lockstep/optim/sgd.h"

#include "tests/golden/golden_bits.h"

namespace lockstep::optim {

inline LrFactor lr_factor(std::int64_t number) {
  if (number == 0) return [](std::int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); };
  if (number == 1) {
    return [](std::int64_t epoch) { return std::pow(0.95, static_cast<double>(epoch)); };
  }
  return [](std::int64_t epoch) { return epoch % 3 != 0 ? 1.0 : 0.5; };
}

inline double lr_metric(std::int64_t epoch) {
  const std::int64_t base =
      epoch < 120 ? std::max<std::int64_t>(60 - epoch, 20) : std::max<std::int64_t>(140 - epoch, 3);
  return static_cast<double>(base + epoch % 4);
}

/// The words of one rule.
struct LrWords {
  explicit LrWords(const std::string& text) : words(golden::words_of(text)) {}

  double real(std::size_t i) const { return parse_double(words.at(i)).value(); }

  std::int64_t whole(std::size_t i) const { return parse_int(words.at(i)).value(); }

  bool flag(std::size_t i) const { return words.at(i) == "1"; }

  std::vector<std::string> words;
};

inline LrRule lr_one_cycle(const LrWords& of) {
  return OneCycleLr{.max_lr = {of.real(1)},
                    .total_steps = of.whole(2),
                    .pct_start = of.real(3),
                    .anneal = of.words[4] == "cos" ? Anneal::kCos : Anneal::kLinear,
                    .cycle_momentum = of.flag(5),
                    .base_momentum = {of.real(6)},
                    .max_momentum = {of.real(7)},
                    .div_factor = of.real(8),
                    .final_div_factor = of.real(9),
                    .three_phase = of.flag(10)};
}

inline LrRule lr_rule(const std::string& text) {
  const LrWords of(text);
  const std::string& kind = of.words.at(0);
  if (kind == "step") return StepLr{of.whole(1), of.real(2)};
  if (kind == "multistep") {
    MultiStepLr rule{.milestones = {}, .gamma = of.real(1)};
    for (std::size_t i = 2; i < of.words.size(); ++i) rule.milestones.push_back(of.whole(i));
    return rule;
  }
  if (kind == "constant") return ConstantLr{of.real(1), of.whole(2)};
  if (kind == "linear") return LinearLr{of.real(1), of.real(2), of.whole(3)};
  if (kind == "exponential") return ExponentialLr{of.real(1)};
  if (kind == "polynomial") return PolynomialLr{of.whole(1), of.real(2)};
  if (kind == "cosine") return CosineAnnealingLr{of.whole(1), of.real(2)};
  if (kind == "restarts") {
    return CosineAnnealingWarmRestarts{of.whole(1), of.whole(2), of.real(3)};
  }
  if (kind == "lambda") return LambdaLr{{lr_factor(of.whole(1))}};
  if (kind == "multiplicative") return MultiplicativeLr{{lr_factor(of.whole(1))}};
  return lr_one_cycle(of);
}

inline PlateauOptions lr_plateau(const LrWords& of) {
  return {.maximize = of.words.at(1) == "max",
          .factor = of.real(2),
          .patience = of.whole(3),
          .threshold = of.real(4),
          .absolute = of.words.at(5) == "abs",
          .cooldown = of.whole(6),
          .min_lr = {of.real(7)},
          .eps = of.real(8)};
}

/// One case at work.
class LrCase {
 public:
  /// `words`: optimizer, rates, steps, kick, then the schedule's words.
  LrCase(Runtime& runtime, std::span<const std::string> words)
      : n_steps_(parse_int(words[2]).value()), kick_(words[3]) {
    std::vector<ParamGroup> groups;
    for (const std::string& rate : split(words[1], ",")) {
      groups.push_back({.parameters = {Variable(Tensor::zeros(runtime, {1}, DType::kF32), true)},
                        .lr = parse_double(rate).value()});
    }
    if (words[0] == "sgd") {
      optimizer = std::make_unique<Sgd>(std::move(groups), SgdOptions{.lr = 0.5, .momentum = 0.9});
    } else {
      optimizer = std::make_unique<Adam>(std::move(groups), AdamOptions{.lr = 0.5});
    }
    start(join({words.begin() + 4, words.end()}, " "));
  }

  std::int64_t n_steps() const { return n_steps_; }

  void step(std::int64_t epoch) {
    if (kick_.starts_with(std::to_string(epoch) + ":")) {
      const double by = parse_double(kick_.substr(kick_.find(':') + 1)).value();
      for (Group& group : optimizer->groups()) group.lr *= by;
    }
    if (plateau) {
      plateau->step(sign_ * lr_metric(epoch));
    } else {
      scheduler->step();
    }
  }

  /// Appends the bits of each group's rate and momentum.
  void note(std::vector<std::int64_t>& numbers) const {
    for (const Group& group : optimizer->groups()) {
      numbers.push_back(std::bit_cast<std::int64_t>(group.lr));
      numbers.push_back(std::bit_cast<std::int64_t>(*group.momentum));
    }
  }

  std::vector<std::int64_t> rates() {
    std::vector<std::int64_t> numbers;
    note(numbers);
    for (std::int64_t epoch = 0; epoch < n_steps_; ++epoch) {
      step(epoch);
      note(numbers);
    }
    return numbers;
  }

  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<LrScheduler> scheduler;
  std::optional<ReduceLrOnPlateau> plateau;

 private:
  static std::vector<std::string> split(const std::string& text, const std::string& at) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    for (std::size_t end = 0; end != std::string::npos; begin = end + at.size()) {
      end = text.find(at, begin);
      parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    }
    return parts;
  }

  void start(const std::string& text) {
    const std::vector<std::string> parts = split(text, " / ");
    if (text.starts_with("plateau")) {
      const LrWords words(text);
      plateau.emplace(*optimizer, lr_plateau(words));
      sign_ = words.words[1] == "max" ? -1.0 : 1.0;
      return;
    }
    if (parts.size() == 1) {
      scheduler = std::make_unique<RuleLr>(*optimizer, lr_rule(text));
      return;
    }
    std::vector<LrRule> rules;
    for (std::size_t i = 1; i < parts.size(); ++i) rules.push_back(lr_rule(parts[i]));
    if (parts[0] == "chained") {
      scheduler = std::make_unique<ChainedLr>(*optimizer, std::move(rules));
      return;
    }
    const LrWords head(parts[0]);
    std::vector<std::int64_t> milestones;
    for (std::size_t i = 1; i < head.words.size(); ++i) milestones.push_back(head.whole(i));
    scheduler = std::make_unique<SequentialLr>(*optimizer, std::move(rules), milestones);
  }

  std::int64_t n_steps_;
  std::string kick_;
  double sign_ = 1.0;
};

}  // namespace lockstep::optim
