// data: rows from the scenario itself, from files or from a seed.
#include <filesystem>
#include <numeric>
#include <system_error>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/data/csv.h"
#include "lockstep/data/digits.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/split.h"
#include "lockstep/data/synthetic.h"
#include "lockstep/data/text.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A data set with the numbers its rows go by.
struct Rows {
  std::shared_ptr<const data::Dataset> dataset;
  std::vector<std::int64_t> ids;  ///< Empty: 0, 1, 2, ...
};

std::shared_ptr<const data::Dataset> keep(Result<data::Dataset> made,
                                          const std::string& where,
                                          Problem& problem) {
  if (made.ok()) return std::make_shared<const data::Dataset>(std::move(made).value());
  const Error& error = made.error();
  // A file's own place says more than the scenario's.
  const bool is_file = error.where.find(':') != std::string::npos || fs::exists(error.where);
  problem.report(is_file ? error.message : error.text(), is_file ? error.where : where);
  return nullptr;
}

/// Data files are relative to the scenario that names them.
std::string beside(const std::string& scenario, const std::string& path) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  return (fs::path(scenario).parent_path() / path).lexically_normal().string();
}

/// scenarios/data/digits.csv of the tree the scenario lies in, else the installed one.
std::string find_digits(const std::string& scenario) {
  std::error_code code;
  fs::path folder = fs::absolute(scenario, code).parent_path();
  while (!folder.empty()) {
    const fs::path near = folder / "data" / "digits.csv";
    const fs::path far = folder / std::string(data::kDigitsPath);
    if (fs::exists(near, code)) return near.string();
    if (fs::exists(far, code)) return far.string();
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return LOCKSTEP_INSTALLED_DIGITS;
}

void append_row(const TomlNode& node,
                data::DatasetParts& parts,
                std::vector<std::int64_t>& ids,
                Problem& problem) {
  if (!node.is_table()) {
    problem.report("a row is a table: { x = [1, 2], y = [0] }", node.where);
    return;
  }
  TableReader row(node, "data.rows", problem);
  const std::vector<double> x = row.numbers("x");
  const std::vector<double> y = row.numbers("y");
  const bool first = parts.size == 0;
  const auto x_columns = static_cast<std::int64_t>(x.size());
  const auto y_columns = static_cast<std::int64_t>(y.size());
  if (first) parts.feature_columns = x_columns;
  if (first) parts.target_columns = y_columns;
  const bool labelled = row.has("label");
  const bool fits = x_columns == parts.feature_columns && y_columns == parts.target_columns &&
                    (first || labelled == !parts.labels.empty());
  if (!fits || x.empty()) {
    problem.report("all rows need the same number of x and y, and a label in all or none",
                   node.where);
  }
  parts.features.insert(parts.features.end(), x.begin(), x.end());
  parts.targets.insert(parts.targets.end(), y.begin(), y.end());
  if (labelled) parts.labels.push_back(row.integer("label", 0));
  parts.tokens.push_back(row.integer("tokens", 1));
  ids.push_back(row.integer("id", parts.size));
  row.finish();
  ++parts.size;
}

Rows inline_rows(TableReader& table, Problem& problem) {
  const TomlNode* list = table.array("rows");
  if (list == nullptr || list->items.empty()) {
    problem.report("inline data need 'rows': [{ x = [1], y = [0] }]", table.where("rows"));
    return {};
  }
  data::DatasetParts parts;
  parts.name = "inline data";
  Rows rows;
  for (const TomlNode& item : list->items) append_row(item, parts, rows.ids, problem);
  if (problem.found()) return {};
  rows.dataset = keep(data::Dataset::make(std::move(parts)), list->where, problem);
  return rows;
}

Rows synthetic_rows(TableReader& table, Problem& problem) {
  data::SyntheticOptions options;
  options.kind = table.word("task", options.kind);
  options.size = table.integer("size", options.size, 1);
  options.weights = table.numbers("weights");
  const auto n_weights = static_cast<std::int64_t>(options.weights.size());
  const std::int64_t n_features = n_weights > 0 ? n_weights : options.features;
  options.features =
      table.integer("features", options.kind == data::SyntheticKind::kRamp ? 1 : n_features, 1);
  options.outputs = table.integer("outputs", options.outputs, 1);
  options.seed = table.seed("seed");
  options.noise = table.number_from("noise", 0.0, 0.0);
  return {keep(data::make_synthetic(options), table.where(), problem), {}};
}

Rows csv_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  const std::string path = beside(scenario, table.text("path", ""));
  if (path.empty()) problem.report("csv data need a 'path'", table.where());
  data::CsvOptions options;
  options.label_column = table.text("label", "");
  options.target_columns = table.texts("targets");
  options.token_column = table.text("tokens", "");
  options.header = table.word("header", options.header);
  const std::string separator = table.text("separator", ",");
  if (separator.size() != 1) {
    problem.report("'data.separator' is one character", table.where("separator"));
  } else {
    options.separator = separator.front();
  }
  if (problem.found()) return {};
  DiskFiles files;
  return {keep(data::load_csv(files, path, options), table.where("path"), problem), {}};
}

Rows npy_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  data::NpyPaths paths;
  paths.features = beside(scenario, table.text("features", ""));
  paths.targets = beside(scenario, table.text("targets", ""));
  paths.labels = beside(scenario, table.text("labels", ""));
  paths.tokens = beside(scenario, table.text("tokens", ""));
  if (paths.features.empty()) problem.report("npy data need 'features': a path", table.where());
  if (problem.found()) return {};
  DiskFiles files;
  return {keep(data::load_npy(files, paths), table.where("features"), problem), {}};
}

Rows digits_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  const std::string given = table.text("path", "");
  const std::string path = given.empty() ? find_digits(scenario) : beside(scenario, given);
  DiskFiles files;
  return {keep(data::load_digits(files, path), table.where(), problem), {}};
}

Rows text_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  const std::string path = beside(scenario, table.text("path", ""));
  const std::string text = table.text("text", "");
  const std::int64_t block_size = table.integer("block_size", 16, 1);
  if (path.empty() == text.empty()) {
    problem.report("text data need either a 'path' or a 'text'", table.where());
  }
  if (problem.found()) return {};
  if (path.empty()) {
    return {keep(data::make_text(text, "inline text", block_size), table.where("text"), problem),
            {}};
  }
  DiskFiles files;
  return {keep(data::load_text(files, path, block_size), table.where("path"), problem), {}};
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
  return keep(data::Dataset::make(std::move(parts)), from.name(), problem);
}

void hold_out(TableReader& table, const Rows& rows, Job& job, Problem& problem) {
  const std::int64_t holdout = table.integer("holdout", 0);
  const std::int64_t seed = table.integer("split_seed", 0);
  job.train = rows.dataset;
  job.train_ids = rows.ids;
  if (holdout == 0 || rows.dataset == nullptr) return;
  const auto split = data::holdout_split(rows.dataset->size(), holdout, seed);
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
                       std::to_string(rows.target_columns()) + " targets a row",
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

Rows read_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  switch (table.word("kind", DataKind::kInline, {"stream"})) {
    case DataKind::kInline:
      return inline_rows(table, problem);
    case DataKind::kSynthetic:
      return synthetic_rows(table, problem);
    case DataKind::kCsv:
      return csv_rows(table, scenario, problem);
    case DataKind::kNpy:
      return npy_rows(table, scenario, problem);
    case DataKind::kDigits:
      return digits_rows(table, scenario, problem);
    case DataKind::kText:
      return text_rows(table, scenario, problem);
  }
  return {};
}

}  // namespace

void read_data(TableReader& root, const JobSurroundings& around, Job& job, Problem& problem) {
  const TomlNode* node = root.table("data");
  if (node == nullptr) {
    problem.report("a job needs data: data = { kind = \"inline\", rows = [...] }", root.where());
    return;
  }
  TableReader table(*node, "data", problem);
  const Rows rows = read_rows(table, around.path, problem);
  job.loader.shard = table.word("shard", job.loader.shard);
  if (job.loader.shard != StreamShard::kNone && job.loader.sampler != SamplerKind::kStream) {
    problem.report("'data.shard' divides a stream: set 'loader.sampler = \"stream\"'",
                   table.where("shard"));
  }
  hold_out(table, rows, job, problem);
  table.finish();
  if (problem.found() || job.train == nullptr) return;
  check_model(job, root.where("model"), problem);
  check_batches(root.where("loader"), around, job, problem);
}

}  // namespace lockstep
