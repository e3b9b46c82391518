// Ordinary programs: what the library records of them by itself, and what a program says in words.
// Each law is checkable because of the one, and notices what is broken on purpose.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/data/data_loader.h"
#include "lockstep/data/detail/pass_record.h"
#include "lockstep/data/sampler.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/run.h"

namespace lockstep::testing {

namespace {

constexpr std::int32_t kRanks = 2;
constexpr std::int64_t kSize = 24;  // Of the data set: large enough for orders to differ.

Verdict verdict_of(const RunResult<void>& run, std::string_view law) {
  for (const LawResult& result : run.report.laws) {
    if (result.law == law) return result.verdict;
  }
  ADD_FAILURE() << "no law " << law;
  return Verdict::kNotCheckable;
}

Tensor rows(RankContext& rank, std::size_t n) {
  return Tensor::full(rank.runtime(), {static_cast<std::int64_t>(n), 2}, DType::kF32, 0.5);
}

/// A training program: a step for each of its batches.
class Trainer {
 public:
  explicit Trainer(RankContext& rank)
      : rank_(rank),
        seed_(0),
        model_(rank.runtime(), 2, 1, seed_),
        ddp_(model_, rank.world()),
        optimizer_(model_.parameters(), {.lr = 0.125}) {}

  void step(std::size_t n_rows = 1) {
    optimizer_.zero_grad();
    const Tensor target =
        Tensor::full(rank_.runtime(), {static_cast<std::int64_t>(n_rows), 1}, DType::kF32, 1.0);
    mse_loss(ddp_(Variable(rows(rank_, n_rows))), target).backward();
    optimizer_.step();
  }

  nn::Module& model() { return model_; }

 private:
  RankContext& rank_;
  Generator seed_;
  nn::Linear model_;
  DistributedDataParallel<nn::Linear> ddp_;
  optim::Sgd optimizer_;
};

RunResult<void> run(const std::function<void(RankContext&)>& program) {
  return run_ranks({.ranks = kRanks}, program);
}

// -- samplers and loaders

RunResult<void> run_epochs(
    const std::function<data::RankSamplerOptions(RankContext&)>& options,
    const std::function<void(data::DistributedSampler&, std::int64_t)>& before_epoch) {
  return run([&](RankContext& rank) {
    Trainer trainer(rank);
    data::DistributedSampler sampler(rank, options(rank));
    std::vector<std::int64_t> mine;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      before_epoch(sampler, epoch);
      sampler.indices(mine);
      for (std::size_t i = 0; i < 2; ++i) trainer.step(mine.size() / 2);
    }
  });
}

void tell_epoch(data::DistributedSampler& sampler, std::int64_t epoch) { sampler.set_epoch(epoch); }

data::RankSamplerOptions all_samples(RankContext& /*rank*/) { return {.size = kSize}; }

TEST(RecordingTest, ASamplerMadeForItsRankIsCheckedWithoutAWord) {
  const auto healthy = run_epochs(all_samples, tell_epoch);

  EXPECT_TRUE(healthy.ok()) << healthy;
  EXPECT_EQ(verdict_of(healthy, "samples-covered"), Verdict::kHolds);
  EXPECT_EQ(verdict_of(healthy, "epoch-reshuffled"), Verdict::kHolds);
  EXPECT_EQ(verdict_of(healthy, "environment-bijective"), Verdict::kHolds);
}

TEST(RecordingTest, ASamplerWithoutSetEpochRepeatsItsOrder) {
  const auto forgotten = run_epochs(all_samples, [](auto& /*sampler*/, auto /*epoch*/) {});

  EXPECT_EQ(verdict_of(forgotten, "epoch-reshuffled"), Verdict::kBroken) << forgotten;
}

TEST(RecordingTest, AnEpochThatIsBegunAgainOnPurposeIsNoRepetition) {
  const auto again =
      run_epochs(all_samples, [](auto& sampler, std::int64_t /*epoch*/) { sampler.set_epoch(4); });

  EXPECT_TRUE(again.ok()) << again;
}

TEST(RecordingTest, RanksThatReadTheSameShardAreNoticed) {
  const auto clones = run_epochs(
      [](RankContext& rank) {
        return data::RankSamplerOptions{.size = kSize, .replicas = rank.world_size(), .rank = 0};
      },
      tell_epoch);

  EXPECT_EQ(verdict_of(clones, "samples-covered"), Verdict::kBroken) << clones;
}

TEST(RecordingTest, RanksThatShuffleDifferentlyAreNoticed) {
  const auto skewed = run_epochs(
      [](RankContext& rank) {
        return data::RankSamplerOptions{.size = kSize, .seed = rank.rank()};
      },
      tell_epoch);

  EXPECT_EQ(verdict_of(skewed, "epoch-reshuffled"), Verdict::kBroken) << skewed;
}

TEST(RecordingTest, TwoDataSetsOfOneNumberingAreNoLeak) {
  const auto healthy = run([](RankContext& rank) {
    Trainer trainer(rank);
    data::DistributedSampler train(rank, {.size = kSize});
    data::DistributedSampler val(rank, {.size = 6, .shuffle = false, .split = "val"});
    std::vector<std::int64_t> mine;
    train.indices(mine);
    trainer.step(mine.size());
    val.indices(mine);
  });

  EXPECT_TRUE(healthy.ok()) << healthy;
}

TEST(RecordingTest, LoadersReadInTurnAreEachCheckedAlone) {
  const auto zipped = run([](RankContext& rank) {
    Trainer trainer(rank);
    data::DistributedSampler first(rank, {.size = kSize});
    data::DistributedSampler second(rank, {.size = kSize});
    data::RankSampler a(first);
    data::RankSampler b(second);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      first.set_epoch(epoch);
      second.set_epoch(epoch);
      a.begin();
      b.begin();
      while (const auto id = a.next()) {
        first.record()->read(std::vector<std::int64_t>{*id});
        second.record()->read(std::vector<std::int64_t>{*b.next()});
        trainer.step();
      }
    }
  });

  EXPECT_TRUE(zipped.ok()) << zipped;
  EXPECT_EQ(verdict_of(zipped, "samples-covered"), Verdict::kHolds);
}

/// Draws once per sample, as augmentations do.
class Augmenter final : public data::SampleReader {
 public:
  void read(std::int64_t /*index*/, data::Worker& worker, data::LoadedBatch& batch) override {
    batch.values.push_back(static_cast<double>(worker.generator->random()));
  }
};

RunResult<void> run_loader(std::int64_t n_workers, bool seed_by_rank) {
  return run([=](RankContext& rank) {
    Trainer trainer(rank);
    Generator process(seed_by_rank ? static_cast<std::uint64_t>(rank.rank()) + 7 : 7);
    data::DistributedSampler sampler(rank, {.size = kSize});
    data::RankSampler order(sampler);
    Augmenter reader;
    auto loader = data::DataLoader::make(
        {.batch_size = 3, .num_workers = n_workers, .global = &process}, order, reader);
    data::LoadedBatch batch;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      sampler.set_epoch(epoch);
      for (loader.value().begin(); loader.value().next(batch);) trainer.step(batch.ids.size());
    }
  });
}

TEST(RecordingTest, ALoaderRecordsItsSamplesAndItsReadersDraws) {
  for (const std::int64_t n_workers : {0, 2}) {
    const auto healthy = run_loader(n_workers, true);
    EXPECT_TRUE(healthy.ok()) << healthy;
    EXPECT_EQ(verdict_of(healthy, "samples-covered"), Verdict::kHolds);
    EXPECT_EQ(verdict_of(healthy, "rng-scopes"), Verdict::kHolds);

    const auto clones = run_loader(n_workers, false);
    EXPECT_EQ(verdict_of(clones, "rng-scopes"), Verdict::kBroken) << clones;
  }
}

// -- dropout

RunResult<void> run_dropout(bool seed_by_rank) {
  return run([=](RankContext& rank) {
    Generator weights(0);
    Generator masks(seed_by_rank ? static_cast<std::uint64_t>(rank.rank()) + 1 : 1);
    nn::Sequential model(rank.runtime());
    model.append<nn::Linear>(2, 4, weights);
    model.append<nn::Dropout>(0.5, masks);
    model.append<nn::Linear>(4, 1, weights);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
    const Tensor target = Tensor::full(rank.runtime(), {3, 1}, DType::kF32, 1.0);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      mse_loss(ddp(Variable(rows(rank, 3))), target).backward();
      optimizer.step();
    }
  });
}

TEST(RecordingTest, DropoutOfOneSeedOnAllRanksIsNoticed) {
  const auto healthy = run_dropout(true);
  EXPECT_TRUE(healthy.ok()) << healthy;
  EXPECT_EQ(verdict_of(healthy, "rng-scopes"), Verdict::kHolds);

  EXPECT_EQ(verdict_of(run_dropout(false), "rng-scopes"), Verdict::kBroken);
}

// -- evaluations and ends

/// Batch statistics differ between the ranks. `through_wrapper`: the evaluation's forward broadcasts
/// rank 0's first.
RunResult<void> run_evaluation(bool through_wrapper, bool on_rank_0_alone = false) {
  return run([=](RankContext& rank) {
    nn::BatchNorm1d model(rank.runtime(), 2);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
    const double values[] = {1.0 + rank.rank(), 2.0, 3.0, 4.0};
    const Variable x(Tensor::of(rank.runtime(), {2, 2}, DType::kF32, values));
    const Tensor target = Tensor::full(rank.runtime(), {2, 2}, DType::kF32, 1.0);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      mse_loss(ddp(x), target).backward();
      optimizer.step();
      if (on_rank_0_alone && rank.rank() != 0) continue;
      model.eval();
      {
        const NoGradGuard no_grad(rank.runtime());
        mse_loss(through_wrapper ? ddp(x) : model(x), target);
      }
      model.train();
    }
  });
}

TEST(RecordingTest, AnEvaluationWithEachRanksOwnStatisticsIsNoticed) {
  const auto healthy = run_evaluation(true);
  EXPECT_TRUE(healthy.ok()) << healthy;
  EXPECT_EQ(verdict_of(healthy, "buffers-policy"), Verdict::kHolds);

  EXPECT_EQ(verdict_of(run_evaluation(false), "buffers-policy"), Verdict::kBroken);
}

TEST(RecordingTest, OneRankMayEvaluateAlone) {
  const auto alone = run_evaluation(false, true);

  EXPECT_TRUE(alone.ok()) << alone;
}

TEST(RecordingTest, AParameterThatIsChangedAfterTheLastStepIsNoticedAtTheEnd) {
  const auto program = [](bool spoil) {
    return run([=](RankContext& rank) {
      Trainer trainer(rank);
      trainer.step();
      const Tensor& weight = trainer.model().parameters().front().data();
      if (spoil && rank.rank() == 1) rank.runtime().kernels().fill(weight, 3.0);
    });
  };
  EXPECT_TRUE(program(false).ok());

  const auto spoiled = program(true);
  ASSERT_EQ(verdict_of(spoiled, "replicas-equal"), Verdict::kBroken);
  EXPECT_NE(render_text(spoiled.report, TextOptions{}).find("end"), std::string::npos) << spoiled;
}

TEST(RecordingTest, AFrozenParameterIsLookedAtAfterEachStep) {
  const auto frozen = run([](RankContext& rank) {
    Trainer trainer(rank);
    trainer.step();
    const Variable bias = trainer.model().parameters().back();
    bias.set_requires_grad(false);
    rank.runtime().kernels().fill(bias.data(), rank.rank());
    trainer.step();
  });

  ASSERT_EQ(verdict_of(frozen, "replicas-equal"), Verdict::kBroken) << frozen;
  const std::string text = render_text(frozen.report, TextOptions{});
  EXPECT_NE(text.find("step 1, at the start of the forward: `bias` on rank 1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("parameter-nudged"), std::string::npos) << text;
}

// -- words

RunResult<void> run_words(const std::function<void(RankContext&, Trainer&)>& words) {
  return run([&](RankContext& rank) {
    Trainer trainer(rank);
    words(rank, trainer);
  });
}

TEST(RecordingTest, AMetricOfARanksOwnShareIsNoticed) {
  const auto program = [](bool local) {
    return run_words([=](RankContext& rank, Trainer& trainer) {
      const std::int64_t ids[] = {2 * rank.rank(), 2 * rank.rank() + 1};
      const double parts[] = {1.0 + rank.rank(), 2.0};
      trainer.model().eval();
      rank.annotate().samples(ids, "val");
      const double own = parts[0] + parts[1];
      const double sum = local ? own : 7.0;
      const double n = local ? 2.0 : 4.0;
      rank.annotate().metric(
          "loss", {.value = sum / n, .numerator = sum, .denominator = n, .parts = parts});
    });
  };
  const auto healthy = program(false);
  EXPECT_TRUE(healthy.ok()) << healthy;
  EXPECT_EQ(verdict_of(healthy, "metric-true"), Verdict::kHolds);
  EXPECT_EQ(verdict_of(program(true), "metric-true"), Verdict::kBroken);
}

TEST(RecordingTest, ABranchThatOneRankTakesIsNoticed) {
  const auto program = [](bool alone) {
    return run_words([=](RankContext& rank, Trainer& trainer) {
      trainer.step();
      rank.annotate().decision("stop", alone && rank.rank() == 1 ? 1 : 0);
    });
  };
  EXPECT_EQ(verdict_of(program(false), "decisions-uniform"), Verdict::kHolds);
  EXPECT_EQ(verdict_of(program(true), "decisions-uniform"), Verdict::kBroken);
}

TEST(RecordingTest, AStreamThatIsSharedIsTheSameOnAllRanks) {
  const auto program = [](bool skewed) {
    return run_words([=](RankContext& rank, Trainer& /*trainer*/) {
      Generator layers(5);
      if (skewed && rank.rank() == 1) layers.random();
      rank.annotate().stream("layer-drop", layers, StreamScope::kShared);
    });
  };
  EXPECT_EQ(verdict_of(program(false), "rng-scopes"), Verdict::kHolds);
  EXPECT_EQ(verdict_of(program(true), "rng-scopes"), Verdict::kBroken);
}

TEST(RecordingTest, AMovingAverageThatDriftsIsNoticedAtItsStep) {
  const auto program = [](bool drifts) {
    return run_words([=](RankContext& rank, Trainer& trainer) {
      const Tensor average = Tensor::zeros(rank.runtime(), {2}, DType::kF32);
      rank.annotate().replicated("ema", {average});
      trainer.step();
      rank.runtime().kernels().fill(average, drifts ? rank.rank() : 1.0);
      trainer.step();
    });
  };
  const auto healthy = program(false);
  EXPECT_TRUE(healthy.ok()) << healthy;

  const auto drifted = program(true);
  ASSERT_EQ(verdict_of(drifted, "replicas-equal"), Verdict::kBroken) << drifted;
  const std::string text = render_text(drifted.report, TextOptions{});
  EXPECT_NE(text.find("step 1, after optimizer.step: `ema`"), std::string::npos) << text;
}

TEST(RecordingTest, ABufferHasThePolicyOfItsName) {
  const auto program = [](BufferPolicy policy) {
    return run([=](RankContext& rank) {
      nn::BatchNorm1d model(rank.runtime(), 2);
      DistributedDataParallel ddp(model, rank.world(), {.broadcast_buffers = false});
      if (policy != BufferPolicy::kNone) rank.annotate().buffers({"running_mean"}, policy);
      const double values[] = {1.0 + rank.rank(), 2.0, 3.0, 4.0};
      ddp(Variable(Tensor::of(rank.runtime(), {2, 2}, DType::kF32, values)));
    });
  };
  EXPECT_EQ(verdict_of(program(BufferPolicy::kNone), "buffers-policy"), Verdict::kNotCheckable);
  EXPECT_TRUE(program(BufferPolicy::kLocal).ok());
  EXPECT_EQ(verdict_of(program(BufferPolicy::kSynced), "buffers-policy"), Verdict::kBroken);
}

TEST(RecordingTest, AConfigurationThatDiffersIsNoticed) {
  const auto program = [](bool differs) {
    return run_words([=](RankContext& rank, Trainer& /*trainer*/) {
      rank.annotate().configuration("vocabulary", differs && rank.rank() == 1 ? "b a" : "a b");
    });
  };
  EXPECT_TRUE(program(false).ok());

  const auto differing = program(true);
  ASSERT_EQ(verdict_of(differing, "environment-bijective"), Verdict::kBroken);
  EXPECT_NE(render_text(differing.report, TextOptions{}).find("vocabulary"), std::string::npos);
}

TEST(RecordingTest, AnEpochInWordsIsCheckedAsASamplersIs) {
  const auto program = [](bool clones) {
    return run_words([=](RankContext& rank, Trainer& trainer) {
      rank.annotate().epoch({.dataset_size = 4, .n_replicas = kRanks, .per_rank = 2});
      const std::int64_t first = clones ? 0 : 2 * rank.rank();
      const std::int64_t ids[] = {first, first + 1};
      rank.annotate().samples(ids);
      trainer.step();
    });
  };
  EXPECT_EQ(verdict_of(program(false), "samples-covered"), Verdict::kHolds);
  EXPECT_EQ(verdict_of(program(true), "samples-covered"), Verdict::kBroken);
}

TEST(RecordingTest, WordsSayNothingWhereNothingIsRecorded) {
  const auto silent = run_ranks({.ranks = kRanks, .record = false}, [](RankContext& rank) {
    EXPECT_FALSE(rank.annotate().on());
    rank.annotate().decision("stop", rank.rank());
    data::DistributedSampler sampler(rank, {.size = kSize});
    std::vector<std::int64_t> mine;
    sampler.indices(mine);
    EXPECT_EQ(mine.size(), static_cast<std::size_t>(kSize / kRanks));
  });

  EXPECT_EQ(silent.report.n_events, 0);
}

}  // namespace

}  // namespace lockstep::testing
