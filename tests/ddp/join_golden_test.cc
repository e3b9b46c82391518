// The join context against PyTorch's on gloo: gradients, state, used maps, errors and the order of
// calls, bit for bit (tests/golden/make_join.py).
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/tensor/kernels.h"

#include "tests/ddp/tiny_model.h"
#include "tests/golden/golden_bits.h"
#include "tests/golden/golden_file.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::term;
using testing::TinyModel;

constexpr std::size_t kSizes[] = {3, 2, 1};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

double coefficient(std::int64_t rank, std::int64_t step, std::int64_t parameter, std::int64_t e) {
  return static_cast<double>((rank * 7 + step * 5 + parameter * 3 + e * 2) % 9 - 4);
}

std::string words(const Tensor& tensor) {
  std::string text;
  for (const float value : tensor.span<float>()) {
    if (!text.empty()) text += " ";
    text += hex64(std::bit_cast<std::uint32_t>(value)).substr(8);
  }
  return text;
}

/// One line "case": rounds and options of a loop.
struct JoinLoop {
  std::string name;
  std::vector<std::string> rounds;
  std::map<std::string, std::string> options;

  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    const auto found = options.find(key);
    return found == options.end() ? otherwise : parse_int(found->second).value();
  }

  bool flag(const std::string& key, bool otherwise) const {
    return number(key, otherwise ? 1 : 0) != 0;
  }

  std::string unused() const {
    const auto found = options.find("unused");
    return found == options.end() ? "none" : found->second;
  }

  std::int32_t n_ranks() const {
    return static_cast<std::int32_t>(split(rounds.front().substr(1), ',').size());
  }
};

DdpOptions ddp_options(const JoinLoop& setup) {
  DdpOptions options;
  options.compat = Compat::kTorch1;
  options.find_unused_parameters = setup.flag("find_unused", false);
  options.gradient_as_bucket_view = setup.flag("view", false);
  options.broadcast_buffers = setup.flag("broadcast", true);
  if (setup.flag("small", false)) {
    options.bucket_cap_mb = 1.0 / 1048576.0;
    options.first_bucket_bytes = 1;
  }
  return options;
}

/// One rank's loop, as make_join.py has it.
class Loop {
 public:
  Loop(MiniRank& rank, const JoinLoop& setup, std::map<std::string, std::string>& lines)
      : rank_(&rank), setup_(&setup), model_(rank.runtime), lines_(&lines) {
    for (std::size_t i = 0; i < 3; ++i) {
      model_.parameter(std::string(1, "abc"[i]),
                       std::vector<double>(kSizes[i], static_cast<double>(i + 1)));
    }
    if (setup.flag("buffers", false)) seen_ = model_.buffer("seen", {0.0, 0.0});
    ddp_.emplace(model_.state(), rank.group, ddp_options(setup));
  }

  void round(std::size_t index) {
    const std::string& text = setup_->rounds[index];
    const std::string own = split(text.substr(1), ',')[static_cast<std::size_t>(rank_->rank)];
    const std::int64_t length = parse_int(own).value();
    std::string error;
    const auto body = [&] {
      for (std::int64_t i = 0; i < length; ++i) step(index, i);
    };
    try {
      if (text[0] == '+') {
        Join join({&*ddp_},
                  {.enable = setup_->flag("enable", true),
                   .throw_on_early_termination = setup_->flag("throw", false),
                   .divide_by_initial_world_size = setup_->flag("divide", true)});
        join.run(body);
      } else {
        body();
      }
    } catch (const JoinError& e) {
      error = e.what();
    }
    record_end(index, error);
  }

 private:
  void record_end(std::size_t index, const std::string& error) {
    std::vector<std::string> state;
    for (const NamedVariable& p : model_.parameters) state.push_back(words(p.variable.data()));
    for (const NamedVariable& b : model_.buffers) state.push_back(words(b.variable.data()));
    line("state", index, "", join(state, " | "));
    line("error", index, "", error);
    if (!setup_->flag("find_unused", false)) return;
    std::vector<std::string> counts;
    for (const std::int32_t n : ddp_->used_map()) counts.push_back(std::to_string(n));
    line("used", index, "", join(counts, " "));
  }

  void line(const char* kind, std::size_t index, const std::string& more, std::string text) {
    const std::string key = std::string(kind) + " " + setup_->name + " " + std::to_string(index) +
                            " " + std::to_string(rank_->rank) + more;
    (*lines_)[key] = std::move(text);
  }

  bool uses_b(std::int64_t step) const {
    const std::string rule = setup_->unused();
    if (rule == "alternate") return (rank_->rank + step) % 2 == 1;
    if (rule == "once") return rank_->rank == 0 && step == 0;
    return true;
  }

  Variable loss(std::int64_t step) {
    if (seen_.defined()) {
      seen_.data().data<float>()[0] += 1.0F;
      seen_.data().data<float>()[1] += static_cast<float>(rank_->rank + 1);
    }
    Variable total;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == 1 && !uses_b(step)) continue;
      std::vector<double> factors;
      for (std::size_t e = 0; e < kSizes[i]; ++e) {
        factors.push_back(coefficient(
            rank_->rank, step, static_cast<std::int64_t>(i), static_cast<std::int64_t>(e)));
      }
      const Variable one = term(model_.parameters[i].variable, factors);
      total = total.defined() ? add(total, one) : one;
    }
    return total;
  }

  void step(std::size_t round_index, std::int64_t step) {
    if (!setup_->flag("keep", false)) {
      for (const NamedVariable& p : model_.parameters) p.variable.set_grad(Tensor());
    }
    const bool syncs = (step + 1) % setup_->number("sync_every", 1) == 0;
    {
      std::optional<NoSync> no_sync;
      if (!syncs) no_sync.emplace(*ddp_);
      ddp_->before_forward(true);
      ddp_->after_forward(loss(step)).backward();
    }
    std::vector<std::string> grads;
    for (const NamedVariable& p : model_.parameters) {
      const Tensor& grad = p.variable.grad();
      grads.push_back(grad.defined() ? words(grad) : "none");
      if (!grad.defined()) continue;
      rank_->runtime.kernels().add_scaled(p.variable.data(), p.variable.data(), grad, -0.25);
    }
    line("grads", round_index, " " + std::to_string(step), join(grads, " | "));
  }

  MiniRank* rank_;
  const JoinLoop* setup_;
  TinyModel model_;
  Variable seen_;
  std::optional<Ddp> ddp_;
  std::map<std::string, std::string>* lines_;
};

/// "AR3 B1 ...", what was posted after the constructor.
std::string calls_of(const MemoryTrace& trace, std::int32_t rank) {
  std::string text;
  std::size_t n_skipped = 0;
  for (const std::string& call : collectives_of(trace, rank)) {
    if (n_skipped++ < 3) continue;  // Wrapping: AG, B of shapes, B of the model.
    const std::size_t open = call.find('[');
    const std::string op = call.substr(0, call.find(' '));
    text += (text.empty() ? "" : " ") + op + call.substr(open + 1, call.size() - open - 2);
  }
  return text;
}

std::map<std::string, std::string> lines_of(const JoinLoop& setup) {
  std::map<std::string, std::string> lines;
  const MiniResult result = run_mini_world(
      {.n_ranks = setup.n_ranks(), .order = ReductionOrder::kGlooRing}, [&](MiniRank& rank) {
        Loop loop(rank, setup, lines);
        for (std::size_t i = 0; i < setup.rounds.size(); ++i) loop.round(i);
      });
  for (std::int32_t r = 0; r < setup.n_ranks(); ++r) {
    EXPECT_EQ(result.error(static_cast<std::size_t>(r)), "") << setup.name;
    lines["calls " + setup.name + " " + std::to_string(r)] = calls_of(*result.trace, r);
  }
  return lines;
}

struct Golden {
  std::vector<JoinLoop> setups;
  std::map<std::string, std::string> lines;
};

Golden read_golden() {
  Golden golden;
  for (const golden::Case& one : golden::read("join.txt")) {
    if (one.kind != "case") {
      golden.lines[one.text()] = one.values;
      continue;
    }
    JoinLoop setup{.name = one.arguments[0],
                   .rounds = {one.arguments.begin() + 1, one.arguments.end()},
                   .options = {}};
    for (const std::string& option : split(one.values, ' ')) {
      const std::size_t cut = option.find('=');
      if (cut != std::string::npos) setup.options[option.substr(0, cut)] = option.substr(cut + 1);
    }
    golden.setups.push_back(std::move(setup));
  }
  return golden;
}

TEST(JoinGoldenTest, EverythingIsPyTorchsBitForBit) {
  const Golden golden = read_golden();
  ASSERT_EQ(golden.setups.size(), 28U);
  std::size_t n_compared = 0;
  for (const JoinLoop& setup : golden.setups) {
    for (const auto& [key, text] : lines_of(setup)) {
      const auto expected = golden.lines.find(key);
      ASSERT_NE(expected, golden.lines.end()) << key;
      EXPECT_EQ(text, expected->second) << key;
      ++n_compared;
    }
  }
  EXPECT_EQ(n_compared, golden.lines.size());
}

// The twin: a world whose context divides otherwise must not pass for PyTorch's.
TEST(JoinGoldenTest, AnotherDivisionIsNoticed) {
  const Golden golden = read_golden();
  for (JoinLoop setup : golden.setups) {
    if (setup.name != "plain") continue;
    setup.options["divide"] = "0";
    std::size_t n_different = 0;
    for (const auto& [key, text] : lines_of(setup)) {
      if (golden.lines.at(key) != text) ++n_different;
    }
    EXPECT_EQ(n_different, 4U) << "two gradients of rank 1, two final states";
  }
}

}  // namespace
}  // namespace lockstep
