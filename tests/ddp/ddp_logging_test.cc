// What a wrapper says about itself, against PyTorch's _get_ddp_logging_data.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/golden/golden_file.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::flat_term;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::total;

const std::set<std::string> kOfTheMachine = {
    "cuda_visible_devices", "master_addr", "master_port", "module_name"};

std::string text_of(const Ddp& ddp) {
  const DdpLoggingData data = ddp.logging_data();
  std::map<std::string, std::string> fields = data.texts;
  for (const auto& [key, value] : data.numbers) fields[key] = std::to_string(value);
  std::string text;
  for (const auto& [key, value] : fields) {
    if (kOfTheMachine.contains(key)) continue;
    text += (text.empty() ? "" : "|") + key + "=" + value;
  }
  return text;
}

// By the names of make_ddp_logging.py.
DdpOptions options_of(const std::string& name, Compat compat) {
  DdpOptions options;
  options.compat = compat;
  if (name == "find_unused") options.find_unused_parameters = true;
  if (name == "static") options.static_graph = true;
  if (name.starts_with("small")) options.bucket_cap_mb = 4.0 / 1024 / 1024;
  if (name == "small_find_unused") options.find_unused_parameters = true;
  if (name == "small_views") {
    options.gradient_as_bucket_view = true;
    options.broadcast_buffers = false;
  }
  return options;
}

// The script's model and loop, one iteration at a time.
class Training {
 public:
  Training(MiniRank& rank, const DdpOptions& options)
      : leaves_out_b_(options.find_unused_parameters),
        model_(rank.runtime),
        a_(model_.parameter("a", {1, 1, 1})),
        b_(model_.parameter("b", {1, 1})),
        c_(model_.parameter("c", {1, 1, 1, 1, 1})),
        ddp_(model_.state(), rank.group, options) {}

  const Ddp& ddp() const { return ddp_; }

  void run_until(std::int64_t last) {
    while (next_ <= last) run_one();
  }

 private:
  void run_one() {
    for (const NamedVariable& parameter : model_.parameters) parameter.variable.set_grad({});
    const bool with_b = !leaves_out_b_ || next_ % 2 == 1;
    std::unique_ptr<NoSync> guard;
    if (next_ == 4) guard = std::make_unique<NoSync>(ddp_);
    testing::forward_backward(ddp_, [&] {
      const Variable y = total({flat_term(a_, 1), flat_term(c_, 1)});
      return with_b ? total({y, flat_term(b_, 1)}) : y;
    });
    ++next_;
  }

  bool leaves_out_b_;
  TinyModel model_;
  Variable a_;
  Variable b_;
  Variable c_;
  Ddp ddp_;
  std::int64_t next_ = 0;
};

void compare_with(const std::string& file, Compat compat) {
  std::size_t n_compared = 0;
  const std::vector<golden::Case> cases = golden::read(file);
  const MiniResult result = run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    std::unique_ptr<Training> training;
    for (const golden::Case& one : cases) {
      if (one.kind == "new") {
        training = std::make_unique<Training>(rank, options_of(one.arguments[0], compat));
      } else {
        training->run_until(one.integer(1));
      }
      EXPECT_EQ(text_of(training->ddp()), one.values) << one.text();
      ++n_compared;
    }
  });
  EXPECT_EQ(result.error(0), "");
  EXPECT_EQ(n_compared, 80U);
}

TEST(DdpLoggingGoldenTest, FieldsAreThoseOfPyTorch113) {
  compare_with("ddp_logging.txt", Compat::kTorch1);
}

TEST(DdpLoggingGoldenTest, FieldsAreThoseOfPyTorch2) {
  compare_with("ddp_logging_torch2.txt", Compat::kTorch2);
}

TEST(DdpLoggingTest, NamesTheRankTheTypesAndTheModel) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    rank.host.variables["MASTER_PORT"] = "29500";
    TinyModel model(rank.runtime);
    model.parameter("a", {1, 1, 1});
    const double one = 1;
    model.parameter("c", std::span(&one, 1), DType::kF64);
    const Ddp ddp(model.state(), rank.group, {.module_name = "Tiny"});
    DdpLoggingData data = ddp.logging_data();
    EXPECT_EQ(data.numbers["rank"], rank.rank);
    EXPECT_EQ(data.numbers["world_size"], 2);
    EXPECT_EQ(data.texts["dtypes"], "double, float");
    EXPECT_EQ(data.texts["module_name"], "Tiny");
    EXPECT_EQ(data.texts["master_port"], "29500");
    EXPECT_EQ(data.texts["master_addr"], "N/A");
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

}  // namespace
}  // namespace lockstep
