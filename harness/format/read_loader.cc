// loader and loss: which rows a rank sees in which order, and what is made of its outputs.
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

const Section<AugmentSpec>& augment_section() {
  static const Section<AugmentSpec> section("loader.augment", [](Section<AugmentSpec>& it) {
    it.differs_by_rank();
    it.add("stream",
           &AugmentSpec::stream,
           "The generator that draws: the one that the loader seeds in each worker in each epoch, "
           "or a copy of the rank's generator of another library, which never advances (NumPy "
           "before PyTorch 1.9).")
        .preset(AugmentStream::kWorker);
    it.add("seed", &AugmentSpec::seed, "Of the rank's own generator.");
    it.add("seed_by_rank", &AugmentSpec::seed_by_rank, "The seed is `seed` + rank.");
  });
  return section;
}

void check_loader(TableReader& table, LoaderSpec& loader) {
  if (loader.persistent && loader.workers == 0) {
    table.problem().report("persistent_workers option needs num_workers > 0",
                           table.where("persistent"));
  }
  const bool even =
      loader.sampler != SamplerKind::kStream && loader.sampler != SamplerKind::kBatchesByRank;
  if (loader.augment.stream != AugmentStream::kNone && !even) {
    table.problem().report("'loader.augment' needs a sampler whose batches have one size",
                           table.where("augment"));
  }
  if (loader.sampler == SamplerKind::kBatchesByRank && loader.batches_by_rank.empty()) {
    table.problem().report("sampler = \"batches_by_rank\" needs 'batches_by_rank': [[2, 2], [1]]",
                           table.where());
  }
}

const Section<LoaderSpec>& loader_section() {
  static const Section<LoaderSpec> section("loader", [](Section<LoaderSpec>& it) {
    it.differs_by_rank();
    it.add("batch", &LoaderSpec::batch, "Samples per rank and micro-step.")
        .preset(0)  // read_data knows how many rows there are.
        .shown("a rank's whole share")
        .at_least(1)
        .counts()
        .varies("the batch of a rank", {"1", "2", "3", "4", "8"})
        .nudged();
    it.code("global_batch",
            FieldType::kInteger,
            "Samples of all ranks and micro-step together, as scripts write `6 // world_size`: the "
            "ranks must divide it. Instead of `batch`.")
        .between(1, TableReader::kMost)
        .shown("none")
        .counts();
    it.add("sampler", &LoaderSpec::sampler, "Which rows a rank sees.").later({"weighted"});
    it.add("rank", &LoaderSpec::rank, "The rank that a distributed sampler is given.")
        .at_least(-1)
        .shown("the rank's own");
    it.add("shuffle", &LoaderSpec::shuffle, "A new order in each epoch.");
    it.add("seed", &LoaderSpec::seed, "Of the order; epoch e uses `seed` + e.").seeds_job();
    it.add("set_epoch", &LoaderSpec::set_epoch, "The sampler is given the epoch.");
    it.add("first_epoch",
           &LoaderSpec::first_epoch,
           "The first number it is given: 1 for scripts that count from 1.");
    it.add("drop_last", &LoaderSpec::drop_last, "Rows that do not divide evenly are left out.");
    it.add("batches_by_rank",
           &LoaderSpec::batches_by_rank,
           "batches_by_rank: sizes of each rank's consecutive batches, `[[2, 2], [4]]`.")
        .counts();
    it.add("workers", &LoaderSpec::workers, "Processes that read, 0: the rank's own.")
        .at_most(10'000)
        .counts();
    it.add("persistent", &LoaderSpec::persistent, "Workers last over epochs.");
    it.table("augment",
             &LoaderSpec::augment,
             augment_section(),
             "The worker that reads a row draws whether its features change sign; absent: no.");
    it.check(check_loader);
  });
  return section;
}

/// What one rank has of a batch that is given for all.
std::int64_t share_of_batch(TableReader& table, std::int32_t n_ranks) {
  const std::int64_t whole = table.integer("global_batch", n_ranks, 1, TableReader::kMost);
  if (table.has("batch")) {
    table.problem().report("a loader has either 'batch' or 'global_batch'",
                           table.where("global_batch"));
  }
  if (whole % n_ranks != 0) {
    table.problem().report("'loader.global_batch' is " + std::to_string(whole) + ", which " +
                               std::to_string(n_ranks) +
                               " ranks do not divide: a script that asserts it ends here",
                           table.where("global_batch"));
  }
  return whole / n_ranks;
}

const Section<LossSpec>& loss_section() {
  static const Section<LossSpec> section("loss", [](Section<LossSpec>& it) {
    it.differs_by_rank();
    it.add("kind", &LossSpec::kind, "What compares outputs and targets.")
        .later({"smooth-l1", "hinge"});
    it.add("normalize", &LossSpec::normalize, "What the loss divides by.");
    it.add("declared", &LossSpec::declared, "What was intended.");
  });
  return section;
}

}  // namespace

std::vector<SchemaSection> loader_sections() {
  return {loader_section().described(), augment_section().described(), loss_section().described()};
}

LoaderSpec read_loader(TableReader& root, std::int32_t n_ranks, Problem& problem) {
  TableReader table = section(root, "loader", problem);
  LoaderSpec loader;
  loader_section().read(table, loader);
  if (table.has("global_batch")) loader.batch = share_of_batch(table, n_ranks);
  table.finish();
  return loader;
}

LossSpec read_loss(TableReader& root, Problem& problem) {
  TableReader table = section(root, "loss", problem);
  LossSpec loss;
  loss_section().read(table, loss);
  table.finish();
  return loss;
}

}  // namespace lockstep
