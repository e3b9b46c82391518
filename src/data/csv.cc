#include "lockstep/data/csv.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "lockstep/base/host.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

struct Line {
  std::string_view text;
  std::size_t number = 0;  ///< From 1.
};

// The lines that are not blank, without their ends.
std::vector<Line> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Line> lines;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!trim(line).empty()) lines.push_back({.text = line, .number = number});
  }
  return lines;
}

// from_chars takes no plus sign, people write one.
std::optional<double> number(std::string_view field) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  return parse_double(field);
}

enum class Role : std::uint8_t { kFeature, kTarget, kLabel, kTokens };

struct Column {
  Role role = Role::kFeature;
  std::size_t place = 0;  ///< Place within the row of its matrix.
};

class Reader {
 public:
  Reader(std::string_view file, const CsvOptions& options) : file_(file), options_(options) {}

  Result<Dataset> read(std::string_view text);

 private:
  Error at(const Line& line, std::string_view field, std::string message) const {
    const auto column = static_cast<std::size_t>(field.data() - line.text.data()) + 1;
    return Error{.message = std::move(message),
                 .where = file_ + ":" + std::to_string(line.number) + ":" + std::to_string(column)};
  }

  bool is_header(const std::vector<std::string_view>& fields) const;
  std::optional<std::size_t> find_column(const std::string& name) const;
  Outcome assign(const std::string& name, Column column);
  Outcome plan_columns(const Line& first, bool header);
  Outcome read_row(const Line& line);
  Outcome store(const Line& line, std::string_view field, std::size_t column);

  std::string file_;
  const CsvOptions& options_;
  std::vector<std::string_view> names_;  ///< Header fields, or empty.
  std::vector<Column> columns_;
  DatasetParts parts_;
};

bool Reader::is_header(const std::vector<std::string_view>& fields) const {
  if (options_.header != CsvHeader::kDetect) return options_.header == CsvHeader::kPresent;
  // Names only: a row of numbers with one slip in it must be an error, not a header that vanishes.
  for (const std::string_view field : fields) {
    if (trim(field).empty() || number(trim(field))) return false;
  }
  return true;
}

// A header name wins over a number, so that a column called "3" can be meant.
std::optional<std::size_t> Reader::find_column(const std::string& name) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return i;
  }
  const std::optional<std::int64_t> place = parse_int(name);
  const auto n = static_cast<std::int64_t>(columns_.size());
  if (!place || *place < -n || *place >= n) return std::nullopt;
  return static_cast<std::size_t>(*place < 0 ? *place + n : *place);
}

Outcome Reader::assign(const std::string& name, Column column) {
  const std::optional<std::size_t> place = find_column(name);
  if (!place) {
    return Error{.message = "no column '" + name + "' among " + std::to_string(columns_.size()) +
                            did_you_mean(name, names_),
                 .where = file_};
  }
  if (columns_[*place].role != Role::kFeature) {
    return Error{.message = "column '" + name + "' is used twice", .where = file_};
  }
  columns_[*place] = column;
  return success();
}

Outcome Reader::plan_columns(const Line& first, bool header) {
  const std::vector<std::string_view> fields = split(first.text, options_.separator);
  if (header) {
    for (const std::string_view field : fields) names_.push_back(trim(field));
  }
  columns_.resize(fields.size());
  for (std::size_t i = 0; i < options_.target_columns.size(); ++i) {
    Outcome done = assign(options_.target_columns[i], {.role = Role::kTarget, .place = i});
    if (!done.ok()) return done;
  }
  if (!options_.label_column.empty()) {
    Outcome done = assign(options_.label_column, {.role = Role::kLabel, .place = 0});
    if (!done.ok()) return done;
  }
  if (!options_.token_column.empty()) {
    Outcome done = assign(options_.token_column, {.role = Role::kTokens, .place = 0});
    if (!done.ok()) return done;
  }
  std::size_t features = 0;
  for (Column& column : columns_) {
    if (column.role == Role::kFeature) column.place = features++;
  }
  parts_.feature_columns = static_cast<std::int64_t>(features);
  parts_.target_columns = static_cast<std::int64_t>(options_.target_columns.size());
  return success();
}

Outcome Reader::store(const Line& line, std::string_view field, std::size_t column) {
  const std::optional<double> value = number(field);
  if (!value) return at(line, field, "'" + std::string(field) + "' is not a number");
  if (!std::isfinite(*value)) return at(line, field, "'" + std::string(field) + "' is not finite");

  const auto [role, place] = columns_[column];
  if (role == Role::kFeature || role == Role::kTarget) {
    // The row was appended as zeros; targets may stand in another order than in the file.
    auto& matrix = role == Role::kFeature ? parts_.features : parts_.targets;
    const auto width = static_cast<std::size_t>(role == Role::kFeature ? parts_.feature_columns
                                                                       : parts_.target_columns);
    matrix[matrix.size() - width + place] = *value;
    return success();
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to here are themselves.
  if (*value < 0 || *value > kExact || *value != std::floor(*value)) {
    return at(line, field, "'" + std::string(field) + "' is not a whole number from 0");
  }
  (role == Role::kLabel ? parts_.labels : parts_.tokens)
      .push_back(static_cast<std::int64_t>(*value));
  return success();
}

Outcome Reader::read_row(const Line& line) {
  const std::vector<std::string_view> fields = split(line.text, options_.separator);
  if (fields.size() != columns_.size()) {
    // Points at the first superfluous field, or past the end of a line that is too short.
    const bool more = fields.size() > columns_.size();
    const std::string_view place =
        more ? fields[columns_.size()] : line.text.substr(line.text.size());
    return at(
        line,
        place,
        std::to_string(fields.size()) + " columns instead of " + std::to_string(columns_.size()));
  }
  parts_.features.resize(parts_.features.size() + static_cast<std::size_t>(parts_.feature_columns));
  parts_.targets.resize(parts_.targets.size() + static_cast<std::size_t>(parts_.target_columns));
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string_view field = trim(fields[i]);
    // trim() of blanks alone has no place in the line; the untrimmed field has.
    Outcome done =
        field.empty() ? at(line, fields[i], "a number is missing") : store(line, field, i);
    if (!done.ok()) return done;
  }
  ++parts_.size;
  return success();
}

Result<Dataset> Reader::read(std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  const bool header = !lines.empty() && is_header(split(lines.front().text, options_.separator));
  if (lines.size() <= (header ? 1U : 0U)) {
    return Error{.message = "no rows of numbers", .where = file_};
  }
  if (Outcome planned = plan_columns(lines.front(), header); !planned.ok()) return planned.error();
  for (std::size_t i = header ? 1 : 0; i < lines.size(); ++i) {
    if (Outcome done = read_row(lines[i]); !done.ok()) return done.error();
  }
  parts_.name = file_;
  return Dataset::make(std::move(parts_));
}

}  // namespace

Result<Dataset> parse_csv(std::string_view text, std::string_view file, const CsvOptions& options) {
  return Reader(file, options).read(text);
}

Result<Dataset> load_csv(FileSystem& files, std::string_view path, const CsvOptions& options) {
  const Result<std::string> text = files.read(path);
  if (!text.ok()) return text.error();
  return parse_csv(text.value(), path, options);
}

}  // namespace lockstep::data
