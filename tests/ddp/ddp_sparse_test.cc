// Sparse gradients of embeddings: gathered, not summed. The expected values are those of PyTorch
// 1.13 and 2.15 on two gloo processes.
#include <gtest/gtest.h>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/reducer/sparse_all_reduce.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::flat_term;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::total;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

Tensor integers(Runtime& runtime, const Values& values) {
  return Tensor::of(runtime, {static_cast<std::int64_t>(values.size())}, DType::kI64, values);
}

/// "1 3: 6 6, 4 4" for rows 1 and 3; "?" in front if the list is not coalesced.
std::string rows_of(const Variable& table) {
  const Ref<SparseRows>& grad = table.state().sparse_grad;
  if (!grad) return table.grad().defined() ? "dense" : "none";
  std::string text = grad->is_coalesced() ? "" : "?";
  std::string values;
  const std::int64_t width = grad->values().shape()[1];
  for (std::int64_t k = 0; k < grad->n_entries(); ++k) {
    text += std::to_string(static_cast<int>(grad->indices().at(k))) + " ";
    for (std::int64_t d = 0; d < width; ++d) {
      values += " " + std::to_string(grad->values().at(k * width + d)).substr(0, 4);
    }
  }
  return text + ":" + values;
}

// A table of five rows of two; rank 0 reads rows 1, 3, 1 and rank 1 rows 3, 4, times 3, 6, 9.
struct TableModel : TinyModel {
  explicit TableModel(MiniRank& rank) : TinyModel(rank.runtime), number(rank.rank) {
    table = Variable(Tensor::zeros(rank.runtime, {5, 2}, DType::kF32), true);
    table.state().expects_sparse = true;
    w = parameter("net.w", {1, 1});
    parameters.push_back({"net.table", table});
  }

  Variable reads() const {
    const Values places = number == 0 ? Values{1, 3, 1} : Values{3, 4};
    const Values factors = number == 0 ? Values{3, 3, 6, 6, 9, 9} : Values{3, 3, 6, 6};
    const Variable looked_up = embedding(table, integers(*runtime, places), -1, true);
    return sum(
        mul(looked_up, Variable(Tensor::of(*runtime, looked_up.shape(), DType::kF32, factors))));
  }

  Variable loss() const { return total({flat_term(w, 2), reads()}); }

  void forget() const {
    for (const NamedVariable& one : parameters) one.variable.set_grad(Tensor());
  }

  std::int32_t number;
  Variable table;
  Variable w;
};

constexpr const char* kMean = "1 3 4 : 6.00 6.00 4.50 4.50 3.00 3.00";

TEST(DdpSparseTest, RowsAreGatheredDividedAndMerged) {
  for (const bool as_view : {false, true}) {
    for (const bool is_static : {false, true}) {
      const MiniResult result = run_mini_world({}, [=](MiniRank& rank) {
        const TableModel model(rank);
        Ddp ddp(model.state(),
                rank.group,
                {.gradient_as_bucket_view = as_view, .static_graph = is_static});
        for (int step = 0; step < 4; ++step) {
          model.forget();
          testing::forward_backward(ddp, [&] { return model.loss(); });
          EXPECT_EQ(rows_of(model.table), kMean);
          EXPECT_EQ(grad_of(model.w), (Values{2, 2}));
        }
        EXPECT_EQ(ddp.buckets(), (std::vector<std::vector<std::int32_t>>{{1}, {0}}));
      });
      ASSERT_TRUE(result.ok()) << result.error(0);
    }
  }
}

TEST(DdpSparseTest, ThreeGathersTakeThePlaceOfTheSum) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {});
    testing::forward_backward(ddp, [&] { return model.loss(); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const Texts all = collectives_of(*result.trace, 0);
  // Both ranks have two rows left once their lists are coalesced.
  EXPECT_EQ((Texts{all.begin() + 3, all.end()}),
            (Texts{"AG i64[9]", "AG i64[2]", "AG f32[4]", "AR f32[2]"}));
}

// The negative twin: a dense table of the same gradients is summed in one bucket with the rest.
TEST(DdpSparseTest, ADenseTableIsSummed) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TableModel model(rank);
    model.table.state().expects_sparse = false;
    Ddp ddp(model.state(), rank.group, {});
    testing::forward_backward(ddp, [&] {
      return total({flat_term(model.w, 2), flat_term(model.table, 1.0 + rank.rank)});
    });
    EXPECT_EQ(rows_of(model.table), "dense");
    EXPECT_EQ(grad_of(model.table), Values(10, 1.5));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(collectives_of(*result.trace, 0).back(), "AR f32[12]");
}

TEST(DdpSparseTest, HistoryIsAveragedAgain) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {});
    {
      const NoSync no_sync(ddp);
      testing::forward_backward(ddp, [&] { return model.loss(); });
    }
    EXPECT_EQ(
        rows_of(model.table),
        rank.rank == 0 ? "?1 3 1 : 3.00 3.00 6.00 6.00 9.00 9.00" : "?3 4 : 3.00 3.00 6.00 6.00");
    testing::forward_backward(ddp, [&] { return model.loss(); });
    EXPECT_EQ(rows_of(model.table), "1 3 4 : 12.0 12.0 9.00 9.00 6.00 6.00");
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// Entries are divided one by one and then added: 0.1 / 3 + 0.2 / 3 is not 0.3 / 3.
TEST(DdpSparseTest, EntriesAreDividedBeforeEqualRowsAreAdded) {
  const MiniResult result = run_mini_world({.n_ranks = 3}, [](MiniRank& rank) {
    TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {});
    testing::forward_backward(ddp, [&] {
      const Variable read = embedding(model.table, integers(rank.runtime, {0, 0}), -1, true);
      const Values factors = {0.1, 0.1, 0.2, 0.2};
      const Tensor constants = Tensor::of(rank.runtime, {2, 2}, DType::kF32, factors);
      return total({flat_term(model.w, 2), sum(mul(read, Variable(constants)))});
    });
    const float own = 0.1F / 3.0F + 0.2F / 3.0F;
    EXPECT_EQ(static_cast<float>(model.table.state().sparse_grad->values().at(0)), own + own + own);
    EXPECT_NE(own, (0.1F + 0.2F) / 3.0F);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpSparseTest, ARankWithoutRowsTakesPart) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const auto make = [&rank](const Values& indices, const Values& values) {
      return SparseRows::make(
          integers(rank.runtime, indices),
          Tensor::of(
              rank.runtime, {static_cast<std::int64_t>(indices.size()), 1}, DType::kF32, values),
          7);
    };
    const Ref<SparseRows> own = rank.rank == 0 ? make({}, {}) : make({6, 2, 6}, {1, 2, 4});
    const Ref<SparseRows> sum = all_reduce_rows(rank.group, *own, {});
    EXPECT_TRUE(sum->is_coalesced());
    EXPECT_EQ(sum->indices().at(0), 2);
    EXPECT_EQ(sum->indices().at(1), 6);
    EXPECT_EQ(sum->values().at(0), 2);
    EXPECT_EQ(sum->values().at(1), 5);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpSparseTest, TablesOfDifferentShapesAreNoticed) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const Ref<SparseRows> own = SparseRows::make(integers(rank.runtime, {0}),
                                                 Tensor::zeros(rank.runtime, {1, 1}, DType::kF32),
                                                 3 + rank.rank);
    all_reduce_rows(rank.group, *own, {});
  });
  EXPECT_EQ(result.error(0), "Sparse dimensions do not match");
  EXPECT_EQ(result.error(1), "Sparse dimensions do not match");
}

// PyTorch's texts; an unused table has no gradient that could be sent, flag or no flag.
TEST(DdpSparseTest, WhatIsNotSparseIsRefused) {
  const auto error_of = [](const DdpOptions& options, auto&& prepare, auto&& loss) {
    return run_mini_world({.n_ranks = 1},
                          [&](MiniRank& rank) {
                            const TableModel model(rank);
                            prepare(model);
                            Ddp ddp(model.state(), rank.group, options);
                            testing::forward_backward(ddp, [&] { return loss(model); });
                          })
        .error(0);
  };
  const auto nothing = [](const TableModel&) {};
  const auto whole = [](const TableModel& model) { return model.loss(); };
  const auto unused = [](const TableModel& model) { return flat_term(model.w, 1); };
  EXPECT_EQ(error_of({}, nothing, whole), "");
  EXPECT_EQ(error_of({.find_unused_parameters = true}, nothing, unused),
            "Expected sparse gradient to be defined.");
  EXPECT_EQ(error_of({.static_graph = true}, nothing, unused),
            "Expected sparse gradient to be defined.");
  EXPECT_EQ(error_of({},
                     nothing,
                     [](const TableModel& model) {
                       return total({model.loss(), flat_term(model.table, 1)});
                     }),
            "Expected variable to have sparse gradient.");
  EXPECT_EQ(error_of(
                {},
                [](const TableModel& model) {
                  model.table.set_grad(Tensor::zeros(*model.runtime, {5, 2}, DType::kF32));
                },
                whole),
            "Expected variable to have sparse gradient.");
}

TEST(DdpSparseTest, AUsedTableNextToAnUnusedParameterIsCounted) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    testing::forward_backward(ddp, [&] { return model.reads(); });
    EXPECT_EQ(rows_of(model.table), kMean);
    EXPECT_FALSE(model.w.grad().defined());
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{0, 2}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpSparseTest, ARankWithoutInputsShadowsTheGathers) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {});
    Join join({&ddp});
    join.run([&] {
      for (int step = 0; step < 1 + rank.rank; ++step) {
        model.forget();
        testing::forward_backward(ddp, [&] { return model.loss(); });
      }
    });
    EXPECT_EQ(rows_of(model.table), rank.rank == 0 ? kMean : "3 4 : 1.50 1.50 3.00 3.00");
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpSparseTest, RecordingShowsTheWholeTable) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {});
    testing::forward_backward(ddp, [&] { return model.loss(); });
    EXPECT_EQ(rows_of(model.table), kMean);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  int n_whole = 0;
  for (const Event& event : result.trace->events(Rank{0})) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad == nullptr || grad->point == GradPoint::kBase) continue;
    EXPECT_EQ(grad->n_elems[1], 10);
    EXPECT_EQ(grad->undefined[0], 0);
    ++n_whole;
  }
  EXPECT_EQ(n_whole, 3);
}

TEST(DdpSparseTest, CommunicationHooksAreRefused) {
  class NoHook final : public CommHook {
   public:
    std::unique_ptr<PendingBucket> run(GradBucket& /*bucket*/) override { return nullptr; }
  };

  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    const TableModel model(rank);
    Ddp ddp(model.state(), rank.group, {});
    NoHook hook;
    ddp.register_comm_hook(hook);
  });
  EXPECT_EQ(result.error(0),
            "communication hooks take flat buckets, and parameter 'net.table' receives sparse "
            "gradients.");
}

}  // namespace
}  // namespace lockstep
