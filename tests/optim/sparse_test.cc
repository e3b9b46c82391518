// Sparse gradients against PyTorch (tests/golden/sparse.txt), and what refuses them.
#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/optim/clip.h"
#include "lockstep/optim/grad_scaler.h"

#include "tests/optim/sparse_case.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;

/// Program and answer of a line of the golden file.
struct SparseLine {
  explicit SparseLine(golden::Case line) : program(std::move(line)) {
    const std::size_t cut = program.values.find(" | ");
    wanted = program.values.substr(cut + 3);
    program.values.resize(cut);
  }

  golden::Case program;
  std::string wanted;
};

TEST(SparseGoldenTest, ProgramsHaveTheBitsOfPyTorch) {
  const std::vector<golden::Case> lines = golden::read("sparse.txt");
  ASSERT_EQ(lines.size(), 24U);
  for (const golden::Case& line : lines) {
    const SparseLine one(line);

    EXPECT_EQ(SparseProgram(one.program).run(), one.wanted) << one.program.text();
  }
}

TEST(SparseGoldenTest, ASlightlyDifferentRateIsNoticed) {
  int n_noticed = 0;
  for (const golden::Case& line : golden::read("sparse.txt")) {
    SparseLine one(line);
    one.program.arguments.insert(one.program.arguments.begin() + 3, "lr=0.3000001");
    if (SparseProgram(one.program).run() != one.wanted) ++n_noticed;
  }
  EXPECT_GT(n_noticed, 20);
}

class SparseTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 4;

  Ref<SparseRows> rows(std::vector<double> indices, std::vector<double> values) {
    const auto n = static_cast<std::int64_t>(indices.size());
    return SparseRows::make(
        Tensor::of(rt_, {n}, DType::kI64, indices), rt_.tensor({n, 1}, values), kRows);
  }

  void give(std::vector<double> indices, std::vector<double> values) {
    table_.state().sparse_grad = rows(std::move(indices), std::move(values));
  }

  std::string refusal(Optimizer& optimizer) {
    try {
      optimizer.step();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  template <typename O, typename Options>
  std::string refusal_of(const Options& options) {
    O optimizer(std::vector{table_}, options);
    return refusal(optimizer);
  }

  PlainRuntime rt_;
  Variable table_{rt_.tensor({kRows, 1}, {1, 2, 3, 4}), true};
};

TEST_F(SparseTest, OptimizersRefuseWhatPyTorchRefuses) {
  give({1, 1}, {1, 1});
  EXPECT_EQ(refusal_of<Adam>(AdamOptions{}),
            "Adam does not support sparse gradients, please consider SparseAdam instead");
  EXPECT_EQ(refusal_of<AdamW>(AdamWOptions{}), "AdamW does not support sparse gradients");
  EXPECT_EQ(refusal_of<Rmsprop>(RmspropOptions{}), "RMSprop does not support sparse gradients");
  EXPECT_EQ(refusal_of<Sgd>(SgdOptions{.weight_decay = 0.1}),
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  EXPECT_EQ(refusal_of<Adagrad>(AdagradOptions{.weight_decay = 0.1}),
            "weight_decay option is not compatible with sparse gradients");
  EXPECT_EQ(refusal_of<Sgd>(SgdOptions{.momentum = 0.9}),
            "SGD with momentum does not support sparse gradients here");

  table_.set_grad(rt_.tensor({kRows, 1}, {0, 0, 0, 0}));
  EXPECT_EQ(refusal_of<SparseAdam>(SparseAdamOptions{}),
            "SparseAdam does not support dense gradients, please consider Adam instead");
}

TEST_F(SparseTest, NormsAreThoseOfTheSummedRows) {
  give({1, 3, 1}, {1, 4, 2});  // Rows 1 and 3 have 3 and 4: a norm of 5.
  EXPECT_EQ(clip_grad_norm(std::vector{table_}, {.max_norm = 0.0}), 5.0);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(table_.state().sparse_grad->values().at(i), 0.0);
  }
  EXPECT_THROW(clip_grad_value(std::vector{table_}, 1.0), std::runtime_error);
}

TEST_F(SparseTest, AScalerRefusesSparseGradients) {
  give({1}, {1});
  Sgd sgd({table_}, {});
  GradScaler scaler;
  scaler.scale(sum(table_));
  EXPECT_THROW(scaler.unscale(sgd), std::runtime_error);
}

TEST_F(SparseTest, CoalescingAddsInTheOrderOfTheList) {
  const double tiny = 0x1p-53;
  const Ref<SparseRows> sums = rows({2, 0, 2, 2}, {1, -0.0, tiny, tiny})->coalesce();

  EXPECT_TRUE(sums->is_coalesced());
  EXPECT_EQ(sums->n_entries(), 2);
  EXPECT_EQ(sums->values().at(1), 1.0);  // Backwards it would be 1 + 2^-52.
  EXPECT_TRUE(std::signbit(sums->values().at(0)));
}

TEST_F(SparseTest, ATableThatIsNotALeafIsRefused) {
  const Tensor indices = Tensor::of(rt_, {1}, DType::kI64, std::vector{0.0});
  EXPECT_THROW(embedding(scale(table_, 2.0), indices, -1, true), ContractViolation);
}

}  // namespace
}  // namespace lockstep::optim
