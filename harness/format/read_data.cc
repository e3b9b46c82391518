// data: what is held out, and whether model, loss and loader fit the rows.
#include <algorithm>
#include <limits>

#include "lockstep/data/split.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// A batch of the smallest job leaves 4 KB of events.
constexpr std::int64_t kMostBatches = 100'000'000;

struct DataTable {
  DataKind kind = DataKind::kInline;
  std::int64_t holdout = 0;
  std::int64_t split_seed = 0;
  StreamShard shard = LoaderSpec().shard;
};

const Section<DataTable>& data_section() {
  static const Section<DataTable> section("data", [](Section<DataTable>& it) {
    it.differs_by_rank();
    it.add("kind", &DataTable::kind, "Where rows come from.").later({"stream"}).selects();
    it.add("holdout", &DataTable::holdout, "Rows for evaluations alone.").counts();
    it.add("split_seed", &DataTable::split_seed, "Draws the rows that are held out.").seeds_job();
    it.add("shard",
           &DataTable::shard,
           "`loader.sampler = \"stream\"`: how the copies of an iterable data set, one of every "
           "worker of every rank, divide the rows.");
  });
  return section;
}

/// The rows `ids` of `from` as a separate data set.
std::shared_ptr<const data::Dataset> select(const data::Dataset& from,
                                            const std::vector<std::int64_t>& ids,
                                            Problem& problem) {
  data::DatasetParts parts;
  parts.name = from.name();
  parts.size = static_cast<std::int64_t>(ids.size());
  parts.feature_columns = from.feature_columns();
  parts.target_columns = from.target_columns();
  for (const std::int64_t id : ids) {
    const auto x = from.features(id);
    const auto y = from.targets(id);
    parts.features.insert(parts.features.end(), x.begin(), x.end());
    parts.targets.insert(parts.targets.end(), y.begin(), y.end());
    if (from.has_labels()) parts.labels.push_back(from.label(id));
    parts.tokens.push_back(from.tokens(id));
  }
  Result<data::Dataset> made = data::Dataset::make(std::move(parts));
  if (made.ok()) return std::make_shared<const data::Dataset>(std::move(made).value());
  problem.report(made.error().text(), from.name());
  return nullptr;
}

void hold_out(
    TableReader& table, const DataTable& data, const Rows& rows, Job& job, Problem& problem) {
  job.train = rows.dataset;
  job.train_ids = rows.ids;
  if (data.holdout == 0 || rows.dataset == nullptr) return;
  const auto split = data::holdout_split(rows.dataset->size(), data.holdout, data.split_seed);
  if (!split.ok()) {
    problem.report(split.error().message, table.where("holdout"));
    return;
  }
  job.train = select(*rows.dataset, split.value().train, problem);
  job.holdout = select(*rows.dataset, split.value().holdout, problem);
  job.train_ids = split.value().train;
  job.holdout_ids = split.value().holdout;
}

/// Inputs and outputs of a model of layers.
void check_widths(const Job& job, const std::string& where, Problem& problem) {
  const data::Dataset& rows = *job.train;
  const std::vector<std::int64_t>& widths = job.model.widths;
  std::int64_t n_inputs = job.model.kind == ModelKind::kCnn ? 1 : widths.front();
  for (const std::int64_t size : job.model.image) n_inputs *= size;
  if (n_inputs != rows.feature_columns()) {
    problem.report("the model takes " + std::to_string(n_inputs) + " features, the data have " +
                       std::to_string(rows.feature_columns()),
                   where);
  }
  if (job.loss.kind == LossKind::kCrossEntropy) {
    if (!rows.has_labels()) problem.report("cross entropy needs class labels", where);
    if (rows.classes() > widths.back()) {
      problem.report("the model has " + std::to_string(widths.back()) + " outputs, the data have " +
                         std::to_string(rows.classes()) + " classes",
                     where);
    }
  } else if (rows.target_columns() != widths.back()) {
    problem.report("the model has " + std::to_string(widths.back()) + " outputs, the data have " +
                       std::to_string(rows.target_columns()) + " targets per row",
                   where);
  }
}

/// Widths and losses must fit the rows, before any rank runs.
void check_model(Job& job, const std::string& where, Problem& problem) {
  const data::Dataset& rows = *job.train;
  if (job.model.kind == ModelKind::kGpt) {
    fit_gpt(job, where, problem);
  } else {
    check_widths(job, where, problem);
  }
  const LossDivisor divisor = job.loss.normalize;
  const bool by_tokens =
      divisor == LossDivisor::kLocalTokens || divisor == LossDivisor::kGlobalTokens;
  if (by_tokens && job.loss.kind != LossKind::kMse) {
    problem.report(
        "'loss.normalize = \"" + std::string(name_of(divisor)) + "\"' is supported for mse only",
        where);
  }
  if (job.loop.eval.every_epochs > 0 && job.holdout == nullptr) {
    problem.report("'loop.eval' needs rows to evaluate on: set 'data.holdout'", where);
  }
  if (job.loop.eval.every_epochs > 0 && job.loop.eval.metric == EvalMetric::kAccuracy &&
      !rows.has_labels()) {
    problem.report("accuracy needs class labels", where);
  }
  if (job.loop.eval.metric == EvalMetric::kCrossEntropy &&
      job.loss.kind != LossKind::kCrossEntropy) {
    problem.report("the metric cross-entropy needs 'loss.kind = \"cross-entropy\"'", where);
  }
}

void check_lists(const LoaderSpec& loader,
                 std::int64_t n_rows,
                 std::int32_t n_ranks,
                 const std::string& where,
                 Problem& problem) {
  std::int64_t total = 0;
  for (const std::vector<std::int64_t>& sizes : loader.batches_by_rank) {
    for (const std::int64_t size : sizes) total = std::min(total + size, TableReader::kMost);
    if (std::any_of(sizes.begin(), sizes.end(), [](auto size) { return size < 1; })) {
      problem.report("a batch holds at least one sample", where);
    }
  }
  if (loader.batches_by_rank.size() != static_cast<std::size_t>(n_ranks)) {
    problem.report("'loader.batches_by_rank' has " + std::to_string(loader.batches_by_rank.size()) +
                       " lists for " + std::to_string(n_ranks) + " ranks",
                   where);
  } else if (total > n_rows) {
    problem.report("'loader.batches_by_rank' asks for " + std::to_string(total) +
                       " samples, the data have " + std::to_string(n_rows),
                   where);
  }
}

/// Readers that divide the rows among themselves. A stream's batches never mix two workers' rows.
std::int64_t n_shares(const LoaderSpec& loader, std::int64_t n_ranks) {
  if (loader.sampler == SamplerKind::kDistributed) return n_ranks;
  if (loader.shard == StreamShard::kRank) return n_ranks;
  if (loader.shard == StreamShard::kRankAndWorker) {
    return n_ranks * std::max<std::int64_t>(1, loader.workers);
  }
  return 1;
}

void check_batches(const std::string& where,
                   const JobSurroundings& around,
                   Job& job,
                   Problem& problem) {
  LoaderSpec& loader = job.loader;
  const std::int64_t n = job.train->size();
  if (loader.rank >= 0 &&
      (loader.sampler != SamplerKind::kDistributed || loader.rank >= around.n_ranks)) {
    problem.report("'loader.rank' is one of the " + std::to_string(around.n_ranks) +
                       " that a distributed sampler divides rows among",
                   where);
  }
  if (loader.sampler == SamplerKind::kBatchesByRank) {
    check_lists(loader, n, around.n_ranks, where, problem);
    return;
  }
  const std::int64_t replicas = n_shares(loader, around.n_ranks);
  const std::int64_t even = n / replicas;
  const bool cut = loader.drop_last || n % replicas == 0;
  const std::int64_t per_rank = cut ? even : even + 1;
  if (loader.batch == 0) loader.batch = std::max<std::int64_t>(1, per_rank);
  if (loader.batch > per_rank) {
    problem.report("a batch of " + std::to_string(loader.batch) +
                       " is larger than a rank's share of " + std::to_string(per_rank) + " (" +
                       std::to_string(n) + " rows, " + std::to_string(replicas) +
                       (loader.sampler == SamplerKind::kStream ? " readers)"
                        : replicas == 1                        ? " rank)"
                                                               : " ranks)"),
                   where);
  }
}

/// Batches that a rank has in an epoch, at least.
std::int64_t batches_per_epoch(const Job& job, std::int32_t n_ranks) {
  const LoaderSpec& loader = job.loader;
  if (loader.sampler != SamplerKind::kBatchesByRank) {
    return std::max<std::int64_t>(1, job.train->size() / n_shares(loader, n_ranks) / loader.batch);
  }
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const auto& sizes : loader.batches_by_rank) fewest = std::min(fewest, sizes.size());
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(fewest));
}

/// Trillions of events would fill any memory, or take years: better said now than then.
void check_length(TableReader& root, const Job& job, std::int32_t n_ranks, Problem& problem) {
  const LoopSpec& loop = job.loop;
  const char* const key = loop.steps ? "steps" : "epochs";
  const std::int64_t times = loop.steps.value_or(loop.epochs);
  const std::int64_t batches = loop.steps ? loop.accumulate : batches_per_epoch(job, n_ranks);
  if (times <= kMostBatches / n_ranks / batches) return;
  problem.report("'loop." + std::string(key) + "' is " + std::to_string(times) + ": more than " +
                     std::to_string(kMostBatches) +
                     " batches of all ranks together, whose events a run keeps in memory; take "
                     "fewer " +
                     key + " or ranks",
                 section(root, "loop", problem).where(key));
}

}  // namespace

std::vector<SchemaSection> data_sections() { return {data_section().described()}; }

void read_data(TableReader& root, const JobSurroundings& around, Job& job, Problem& problem) {
  const TomlNode* node = root.table("data");
  if (node == nullptr) {
    problem.report("a job needs data: data = { kind = \"inline\", rows = [...] }", root.where());
    return;
  }
  TableReader table(*node, "data", problem);
  DataTable data;
  data_section().read(table, data);
  const Rows rows = read_rows(table, data.kind, around.path, problem);
  job.loader.shard = data.shard;
  if (job.loader.shard != StreamShard::kNone && job.loader.sampler != SamplerKind::kStream) {
    problem.report("'data.shard' divides a stream: set 'loader.sampler = \"stream\"'",
                   table.where("shard"));
  }
  hold_out(table, data, rows, job, problem);
  if (problem.found() || job.train == nullptr) return;
  check_model(job, root.where("model"), problem);
  check_batches(root.where("loader"), around, job, problem);
  if (!problem.found()) check_length(root, job, around.n_ranks, problem);
}

}  // namespace lockstep
