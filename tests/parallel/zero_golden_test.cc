// The sharded optimizer and model averaging against PyTorch's on gloo, bit for bit
// (tests/golden/make_zero.py).
#include <array>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/model_averaging.h"
#include "lockstep/parallel/zero.h"

#include "tests/ddp/tiny_model.h"
#include "tests/golden/golden_file.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::forward_backward;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::term;
using testing::TinyModel;
using Lines = std::map<std::string, std::string>;

constexpr std::int64_t kSizes[] = {3, 5, 2, 4};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<double> coefficients(std::int64_t rank, std::int64_t step, std::int64_t parameter) {
  std::vector<double> values;
  for (std::int64_t e = 0; e < kSizes[parameter]; ++e) {
    values.push_back(static_cast<double>((rank * 7 + step * 5 + parameter * 3 + e * 2) % 9 - 4));
  }
  return values;
}

std::string words(const Tensor& tensor) {
  std::string text;
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(tensor.at(i)));
    text += (i == 0 ? "" : " ") + hex64(bits).substr(8);
  }
  return text;
}

std::string words(const TinyModel& model) {
  std::vector<std::string> parts;
  for (const NamedVariable& p : model.parameters) parts.push_back(words(p.variable.data()));
  return join(parts, " | ");
}

TinyModel model_of(Runtime& runtime) {
  TinyModel model(runtime);
  for (std::size_t i = 0; i < 4; ++i) {
    model.parameter(
        "p" + std::to_string(i),
        std::vector<double>(static_cast<std::size_t>(kSizes[i]), static_cast<double>(i + 1)));
  }
  return model;
}

std::vector<Variable> variables_of(const TinyModel& model) {
  std::vector<Variable> variables;
  for (const NamedVariable& p : model.parameters) variables.push_back(p.variable);
  return variables;
}

ZeroRedundancyOptimizer::Make maker(const std::string& kind) {
  return [kind](std::vector<optim::ParamGroup> groups) -> std::unique_ptr<optim::Optimizer> {
    if (kind == "adam") {
      return std::make_unique<optim::Adam>(std::move(groups), optim::AdamOptions{.lr = 0.01});
    }
    if (kind == "adamw") {
      return std::make_unique<optim::AdamW>(std::move(groups),
                                            optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
    }
    return std::make_unique<optim::Sgd>(std::move(groups),
                                        optim::SgdOptions{.lr = 0.25, .momentum = 0.5});
  };
}

Lines golden_lines() {
  Lines lines;
  for (const golden::Case& one : golden::read("zero.txt")) lines[one.text()] = one.values;
  return lines;
}

/// Whether each of `lines` is in the golden file, with the same values.
void expect_golden(const Lines& golden, const Lines& lines) {
  for (const auto& [key, text] : lines) {
    const auto found = golden.find(key);
    ASSERT_NE(found, golden.end()) << key;
    EXPECT_EQ(text, found->second) << key;
  }
}

TEST(ZeroGoldenTest, PartitionsArePyTorchs) {
  std::size_t n_compared = 0;
  for (const auto& [key, expected] : golden_lines()) {
    const std::vector<std::string> head = split(key, ' ');
    if (head[0] != "partition") continue;
    std::vector<std::vector<std::int64_t>> sizes;
    for (const std::string& group : split(head[2], ';')) {
      sizes.emplace_back();
      for (const std::string& n : split(group, ',')) sizes.back().push_back(parse_int(n).value());
    }
    const auto n_ranks = static_cast<std::int32_t>(parse_int(head[1]).value());
    std::vector<std::string> ranks;
    for (const auto& groups : partition_parameters(sizes, n_ranks)) {
      std::vector<std::string> shares;
      for (const std::vector<std::size_t>& share : groups) {
        std::vector<std::string> places;
        for (const std::size_t i : share) places.push_back(std::to_string(i));
        shares.push_back(join(places, ","));
      }
      ranks.push_back(join(shares, ";"));
    }
    EXPECT_EQ(join(ranks, "/"), expected) << key;
    ++n_compared;
  }
  EXPECT_EQ(n_compared, 69U);
}

// Ddp first, then the optimizer: a rank without inputs keeps stepping with its last gradients.
Lines uneven_loop(const std::string& name,
                  const std::vector<int>& lengths,
                  const std::string& kind,
                  bool view) {
  Lines lines;
  const MiniResult result = run_mini_world(
      {.n_ranks = static_cast<std::int32_t>(lengths.size()), .order = ReductionOrder::kGlooRing},
      [&](MiniRank& rank) {
        const TinyModel model = model_of(rank.runtime);
        Ddp ddp(model.state(), rank.group, {.compat = Compat::kTorch1});
        ZeroRedundancyOptimizer zero(
            variables_of(model), maker(kind), rank.group, {.parameters_as_bucket_view = view});
        const std::string me = std::to_string(rank.rank);
        Join context({&ddp, &zero});
        context.run([&] {
          for (int step = 0; step < lengths[static_cast<std::size_t>(rank.rank)]; ++step) {
            zero.zero_grad();
            forward_backward(ddp, [&] {
              Variable total;
              for (std::int64_t i = 0; i < 4; ++i) {
                const Variable one = term(model.parameters[static_cast<std::size_t>(i)].variable,
                                          coefficients(rank.rank, step, i));
                total = total.defined() ? add(total, one) : one;
              }
              return total;
            });
            zero.step();
            lines["step " + name + " " + me + " " + std::to_string(step)] = words(model);
          }
        });
        lines["end " + name + " " + me] = words(model);
        zero.consolidate_state_dict(0);
        try {
          const optim::OptimizerState whole = zero.state_dict();
          for (const optim::StateList& list : whole.state) {
            for (std::size_t i = 0; i < list.tensors.size(); ++i) {
              lines["state " + name + " " + list.name + " " + std::to_string(i)] =
                  words(list.tensors[i]);
            }
          }
        } catch (const std::runtime_error& e) {
          lines["unconsolidated " + name + " " + me] = e.what();
        }
      });
  EXPECT_TRUE(result.ok()) << name << ": " << result.error(0) << result.error(1);
  return lines;
}

TEST(ZeroGoldenTest, UnevenTrainingUnderAJoinContextIsPyTorchs) {
  const Lines golden = golden_lines();
  expect_golden(golden, uneven_loop("uneven_sgd", {1, 3}, "sgd", false));
  expect_golden(golden, uneven_loop("uneven_adam", {3, 1}, "adam", false));
  expect_golden(golden, uneven_loop("uneven_adamw_view", {1, 2, 4}, "adamw", true));
  expect_golden(golden, uneven_loop("even_sgd_view", {3, 3, 3}, "sgd", true));
}

TEST(ZeroGoldenTest, RefusalsArePyTorchs) {
  const Lines golden = golden_lines();
  std::vector<std::string> errors;
  run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    model.parameter("a", {1.0});
    model.parameter("b", std::vector<double>{1.0}, DType::kF64);
    for (const bool empty : {true, false}) {
      try {
        const std::vector<Variable> given = empty ? std::vector<Variable>() : variables_of(model);
        const ZeroRedundancyOptimizer zero(given, maker("sgd"), rank.group);
      } catch (const std::invalid_argument& e) {
        errors.emplace_back(e.what());
      }
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>({golden.at("error empty"), golden.at("error mixed")}));
}

using MakeAverager = std::function<std::unique_ptr<ModelAverager>(ProcessGroup&)>;

Lines averaged_loop(std::int32_t n_ranks, const std::string& name, const MakeAverager& make) {
  Lines lines;
  const MiniResult result =
      run_mini_world({.n_ranks = n_ranks, .order = ReductionOrder::kGlooRing}, [&](MiniRank& rank) {
        const TinyModel model = model_of(rank.runtime);
        optim::Sgd sgd(variables_of(model), {.lr = 0.25});
        const std::unique_ptr<ModelAverager> averager = make(rank.group);
        PostLocalSgdOptimizer optimizer(sgd, *averager);
        for (int step = 0; step < 9; ++step) {
          for (const std::int64_t i :
               std::array<std::int64_t, 3>{0, 1, 3}) {  // Parameter 2 never has a gradient.
            const Variable& p = model.parameters[static_cast<std::size_t>(i)].variable;
            p.set_grad(
                Tensor::of(rank.runtime, p.shape(), DType::kF32, coefficients(rank.rank, step, i)));
          }
          optimizer.step();
          lines["average " + std::to_string(n_ranks) + " " + name + " " +
                std::to_string(rank.rank) + " " + std::to_string(step)] = words(model);
        }
      });
  EXPECT_TRUE(result.ok()) << result.error(0);
  return lines;
}

TEST(ModelAveragingTest, PeriodsArePyTorchs) {
  const Lines golden = golden_lines();
  const std::pair<std::int64_t, std::int64_t> cases[] = {{2, 0}, {3, 2}, {1, 1}, {4, 3}};
  for (const std::int32_t n_ranks : {2, 3, 4}) {
    for (const auto& one : cases) {
      const std::int64_t period = one.first;
      const std::int64_t warmup = one.second;
      const std::string name = "periodic " + std::to_string(period) + " " + std::to_string(warmup);
      expect_golden(golden, averaged_loop(n_ranks, name, [&](ProcessGroup& group) {
                      return std::make_unique<PeriodicModelAverager>(group, period, warmup);
                    }));
    }
  }
}

// The twin: a different phase of the same period changes the training.
TEST(ModelAveragingTest, AnotherWarmUpIsNoticed) {
  const Lines golden = golden_lines();
  const Lines other = averaged_loop(2, "periodic 3 2", [](ProcessGroup& group) {
    return std::make_unique<PeriodicModelAverager>(group, 3, 1);
  });
  std::size_t n_different = 0;
  for (const auto& [key, text] : other) n_different += golden.at(key) == text ? 0U : 1U;
  EXPECT_GT(n_different, 0U);
}

TEST(ModelAveragingTest, RefusesWhatPyTorchRefuses) {
  std::vector<std::string> errors;
  const auto attempt = [&](const std::function<void()>& make) {
    try {
      make();
    } catch (const std::invalid_argument& e) {
      errors.emplace_back(e.what());
    }
  };
  run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    ProcessGroup& group = rank.group;
    attempt([&] { const PeriodicModelAverager a(group, 1, -1); });
    attempt([&] { const PeriodicModelAverager a(group, 0); });
    attempt([&] { const HierarchicalModelAverager a(group, {}); });
    attempt([&] { const HierarchicalModelAverager a(group, {{.period = 2, .group_size = 2}}); });
    const PeriodicModelAverager pointless(group, 1);
    EXPECT_EQ(rank.host.lines.size(), 1U);
  });
  EXPECT_EQ(errors,
            std::vector<std::string>(
                {"Arg ``warmup_steps`` must be a non-negative number.",
                 "Arg ``period`` must be a positive value.",
                 "Arg ``period_group_size_dict`` must not be empty.",
                 "The last value in arg ``period_process_group_dict`` 2 must be equal to the size "
                 "of arg ``process_group`` 1."}));
}

}  // namespace
}  // namespace lockstep
