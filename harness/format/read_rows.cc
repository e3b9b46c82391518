// data: rows by kind, from the scenario itself, from files or from a seed.
#include <filesystem>
#include <system_error>

#include "lockstep/base/disk_files.h"
#include "lockstep/data/csv.h"
#include "lockstep/data/digits.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/synthetic.h"
#include "lockstep/data/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

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

/// One row of inline data.
struct Row {
  std::vector<double> x;
  std::vector<double> y;
  std::optional<std::int64_t> label;
  std::int64_t tokens = 1;
  std::optional<std::int64_t> id;
};

const Section<Row>& row_section() {
  static const Section<Row> section(
      "data.rows",
      [](Section<Row>& it) {
        it.differs_by_rank();
        it.add("x", &Row::x, "Features.").whole();
        it.add("y", &Row::y, "Targets, or a label instead.").whole();
        it.add("label", &Row::label, "Number of the class; in all rows or none.");
        it.add("tokens", &Row::tokens, "How many of them the row stands for.");
        it.add("id", &Row::id, "Its name in traces.").shown("the row's number");
      },
      SectionShape::kList);
  return section;
}

void append_row(const TomlNode& node,
                data::DatasetParts& parts,
                std::vector<std::int64_t>& ids,
                Problem& problem) {
  if (!node.is_table()) {
    problem.report("a row is a table: { x = [1, 2], y = [0] }", node.where);
    return;
  }
  Row row;
  row_section().read_table(node, row, problem);
  const bool first = parts.size == 0;
  const auto x_columns = static_cast<std::int64_t>(row.x.size());
  const auto y_columns = static_cast<std::int64_t>(row.y.size());
  if (first) parts.feature_columns = x_columns;
  if (first) parts.target_columns = y_columns;
  const bool fits = x_columns == parts.feature_columns && y_columns == parts.target_columns &&
                    (first || row.label.has_value() == !parts.labels.empty());
  if (!fits || row.x.empty()) {
    problem.report("all rows need the same number of x and y, and a label in all or none",
                   node.where);
  }
  parts.features.insert(parts.features.end(), row.x.begin(), row.x.end());
  parts.targets.insert(parts.targets.end(), row.y.begin(), row.y.end());
  if (row.label) parts.labels.push_back(*row.label);
  parts.tokens.push_back(row.tokens);
  ids.push_back(row.id.value_or(parts.size));
  ++parts.size;
}

/// The table as a value. A misspelt key is reported before a file that is not there.
template <typename T>
T whole_table(const Section<T>& section, TableReader& table) {
  T value;
  section.read(table, value);
  table.finish();
  return value;
}

const Section<data::DatasetParts>& inline_section() {
  using Parts = data::DatasetParts;
  static const Section<Parts> section("data", {"inline"}, [](Section<Parts>& it) {
    it.differs_by_rank();
    it.code("rows", FieldType::kTables, "The rows themselves: `[{ x = [1, 2], y = [0] }]`.")
        .required();
  });
  return section;
}

Rows inline_rows(TableReader& table, Problem& problem) {
  data::DatasetParts parts = whole_table(inline_section(), table);
  const TomlNode* list = table.array("rows");
  if (list == nullptr || list->items.empty()) {
    problem.report("inline data need 'rows': [{ x = [1], y = [0] }]", table.where("rows"));
    return {};
  }
  parts.name = "inline data";
  Rows rows;
  for (const TomlNode& item : list->items) append_row(item, parts, rows.ids, problem);
  if (problem.found()) return {};
  rows.dataset = keep(data::Dataset::make(std::move(parts)), list->where, problem);
  return rows;
}

using Made = data::SyntheticOptions;

const Section<Made>& synthetic_section() {
  static const Section<Made> section("data", {"synthetic"}, [](Section<Made>& it) {
    it.differs_by_rank();
    it.add("task", &Made::kind, "What there is to learn.");
    it.add("size", &Made::size, "Rows.")
        .at_least(1)
        .counts()
        .varies("the number of rows", {"1", "2", "3", "4", "8", "64"})
        .nudged();
    it.add("weights",
           &Made::weights,
           "regression: features times outputs, without a bias; absent: drawn.");
    it.add("features", &Made::features, "Columns of x.")
        .at_least(1)
        .shown("8; ramp: 1; as many as `weights` have")
        .counts();
    it.add("outputs", &Made::outputs, "Columns of y, or classes.").at_least(1).counts();
    it.add("seed", &Made::seed, "Of what is drawn.").seeds_job();
    it.add("noise", &Made::noise, "Half width of what is added: to targets, around centres.")
        .from(0.0);
  });
  return section;
}

Rows synthetic_rows(TableReader& table, Problem& problem) {
  Made options = whole_table(synthetic_section(), table);
  if (!table.has("features")) {
    const auto n_weights = static_cast<std::int64_t>(options.weights.size());
    if (n_weights > 0) options.features = n_weights;
    if (options.kind == data::SyntheticKind::kRamp) options.features = 1;
  }
  return {keep(data::make_synthetic(options), table.where(), problem), {}};
}

struct CsvTable {
  std::string path;
  std::string separator = {data::CsvOptions().separator};
  data::CsvOptions options;
};

const Section<CsvTable>& csv_section() {
  static const Section<CsvTable> section("data", {"csv"}, [](Section<CsvTable>& it) {
    using Options = data::CsvOptions;
    it.differs_by_rank();
    it.add("path", &CsvTable::path, "The file.").required();
    it.add("label", in(&CsvTable::options, &Options::label_column), "Column with class numbers.");
    it.add("targets", in(&CsvTable::options, &Options::target_columns), "Columns with targets.");
    it.add("tokens", in(&CsvTable::options, &Options::token_column), "Column with tokens of rows.");
    it.add("header",
           in(&CsvTable::options, &Options::header),
           "Whether the first line names columns.");
    it.add("separator", &CsvTable::separator, "One character between fields.");
  });
  return section;
}

Rows csv_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  CsvTable csv = whole_table(csv_section(), table);
  const std::string path = beside(scenario, csv.path);
  if (path.empty()) problem.report("csv data need a 'path'", table.where());
  if (csv.separator.size() != 1) {
    problem.report("'data.separator' is one character", table.where("separator"));
  } else {
    csv.options.separator = csv.separator.front();
  }
  if (problem.found()) return {};
  DiskFiles files;
  return {keep(data::load_csv(files, path, csv.options), table.where("path"), problem), {}};
}

const Section<data::NpyPaths>& npy_section() {
  using Paths = data::NpyPaths;
  static const Section<Paths> section("data", {"npy"}, [](Section<Paths>& it) {
    it.differs_by_rank();
    it.add("features", &Paths::features, "File of x.").required();
    it.add("targets", &Paths::targets, "File of y.");
    it.add("labels", &Paths::labels, "File of class numbers, instead of targets.");
    it.add("tokens", &Paths::tokens, "File of tokens of rows.");
  });
  return section;
}

Rows npy_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  data::NpyPaths paths = whole_table(npy_section(), table);
  for (std::string* path : {&paths.features, &paths.targets, &paths.labels, &paths.tokens}) {
    *path = beside(scenario, *path);
  }
  if (paths.features.empty()) problem.report("npy data need 'features': a path", table.where());
  if (problem.found()) return {};
  DiskFiles files;
  return {keep(data::load_npy(files, paths), table.where("features"), problem), {}};
}

struct DigitsTable {
  std::string path;
};

const Section<DigitsTable>& digits_section() {
  static const Section<DigitsTable> section("data", {"digits"}, [](Section<DigitsTable>& it) {
    it.differs_by_rank();
    it.add("path", &DigitsTable::path, "A file of digits.")
        .shown("the one that ships with the project");
  });
  return section;
}

Rows digits_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  const DigitsTable digits = whole_table(digits_section(), table);
  const std::string path =
      digits.path.empty() ? find_digits(scenario) : beside(scenario, digits.path);
  DiskFiles files;
  return {keep(data::load_digits(files, path), table.where(), problem), {}};
}

struct TextTable {
  std::string path;
  std::string text;
  std::int64_t block_size = 16;
};

const Section<TextTable>& text_section() {
  static const Section<TextTable> section("data", {"text"}, [](Section<TextTable>& it) {
    it.differs_by_rank();
    it.add("path", &TextTable::path, "A file with the text.");
    it.add("text", &TextTable::text, "The text itself; instead of `path`.");
    it.add("block_size", &TextTable::block_size, "Characters of a sample.").at_least(1).counts();
  });
  return section;
}

Rows text_rows(TableReader& table, const std::string& scenario, Problem& problem) {
  const TextTable given = whole_table(text_section(), table);
  const std::string path = beside(scenario, given.path);
  if (path.empty() == given.text.empty()) {
    problem.report("text data need either a 'path' or a 'text'", table.where());
  }
  if (problem.found()) return {};
  if (path.empty()) {
    return {keep(data::make_text(given.text, "inline text", given.block_size),
                 table.where("text"),
                 problem),
            {}};
  }
  DiskFiles files;
  return {keep(data::load_text(files, path, given.block_size), table.where("path"), problem), {}};
}

}  // namespace

std::vector<SchemaSection> rows_sections() {
  return {inline_section().described(),
          row_section().described(),
          synthetic_section().described(),
          csv_section().described(),
          npy_section().described(),
          digits_section().described(),
          text_section().described()};
}

Rows read_rows(TableReader& table, DataKind kind, const std::string& scenario, Problem& problem) {
  switch (kind) {
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

}  // namespace lockstep
