#include "lockstep/harness/whatif/nccl_tests_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/harness/timing/call_times.h"

namespace lockstep {

namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!trim(word).empty()) words.push_back(trim(word));
  }
  return words;
}

/// Columns of a row, by the header above it: versions differ in whether there is a root.
struct Columns {
  std::size_t redop = 0;
  std::optional<std::size_t> root;
  std::size_t time = 0;
};

std::optional<Columns> columns_of(const std::vector<std::string_view>& header) {
  // "#" is the first word and no column.
  const auto place = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header.begin()) - 1;
  };
  if (header.size() < 3 || header[0] != "#" || header[1] != "size") return std::nullopt;
  const auto redop = place("redop");
  const auto time = place("time");
  if (!redop || !time) return std::nullopt;
  return Columns{.redop = *redop, .root = place("root"), .time = *time};
}

struct Row {
  std::int64_t n_bytes = 0;
  bool reduces = false;
  bool has_root = false;
  double time_us = 0.0;
  double alg = 0.0;
  double bus = 0.0;
};

std::optional<Row> row_of(const std::vector<std::string_view>& words, const Columns& columns) {
  if (words.size() < columns.time + 3) return std::nullopt;
  const auto bytes = parse_int(words[0]);
  const auto time = parse_double(words[columns.time]);
  const auto alg = parse_double(words[columns.time + 1]);
  const auto bus = parse_double(words[columns.time + 2]);
  if (!bytes || *bytes < 0 || !time || !std::isfinite(*time) || !alg || !bus) return std::nullopt;
  return Row{.n_bytes = *bytes,
             .reduces = words[columns.redop] != "none",
             .has_root = columns.root && words[*columns.root] != "-1",
             .time_us = *time,
             .alg = *alg,
             .bus = *bus};
}

struct Program {
  std::string_view name;
  CollectiveOp op;
};

constexpr std::array kPrograms = {Program{"all_reduce_perf", CollectiveOp::kAllReduce},
                                  Program{"all_gather_perf", CollectiveOp::kAllGather},
                                  Program{"reduce_scatter_perf", CollectiveOp::kReduceScatter},
                                  Program{"broadcast_perf", CollectiveOp::kBroadcast},
                                  Program{"alltoall_perf", CollectiveOp::kAllToAll},
                                  Program{"scatter_perf", CollectiveOp::kScatter},
                                  Program{"gather_perf", CollectiveOp::kGather},
                                  Program{"reduce_perf", CollectiveOp::kReduce}};

/// Older versions do not print their name, but which operation it was shows in its columns and in
/// the quotient of its two bandwidths, unless several have the same.
std::optional<CollectiveOp> op_by_numbers(const std::vector<Row>& rows, std::int32_t n_ranks) {
  const auto largest = std::ranges::max_element(rows, {}, &Row::bus);
  if (!largest->reduces || largest->alg <= 0.0) return std::nullopt;
  if (largest->has_root) return CollectiveOp::kReduce;
  const double quotient = largest->bus / largest->alg;
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter}) {
    // Both are printed with two digits after the point.
    const double rounding = 0.005 * (1.0 + quotient) / largest->alg;
    if (std::abs(quotient - bus_factor(op, n_ranks)) <= rounding) return op;
  }
  return std::nullopt;
}

/// What has been read so far.
struct Table {
  std::int32_t n_ranks = 0;
  std::optional<CollectiveOp> op;
  std::optional<Columns> columns;
  std::vector<Row> rows;
};

void read_comment(std::string_view line, const std::vector<std::string_view>& words, Table& table) {
  if (words.size() > 2 && words[1] == "Rank") ++table.n_ranks;
  if (const auto columns = columns_of(words)) table.columns = columns;
  if (table.op) return;
  for (const Program& program : kPrograms) {
    if (line.find(program.name) == std::string_view::npos) continue;
    table.op = program.op;
    return;
  }
}

}  // namespace

Result<std::vector<MeasuredCalls>> read_nccl_tests(const std::string& text,
                                                   const std::string& path) {
  Table table;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    if (words[0].front() == '#') {
      read_comment(line, words, table);
      continue;
    }
    if (!table.columns) continue;  // What a launcher prints ahead of the table.
    const auto row = row_of(words, *table.columns);
    if (!row) {
      return Error{fmt::format("'{}' is not a row of nccl-tests", printable(trim(line))),
                   fmt::format("{}:{}", path, number)};
    }
    table.rows.push_back(*row);
  }
  if (table.rows.empty()) {
    return Error{"no table of nccl-tests: its header line is '#  size  count  type  redop ...'",
                 path};
  }
  if (table.n_ranks < 2) return Error{"no lines '#  Rank  0 ...' of two or more ranks", path};
  if (!table.op) table.op = op_by_numbers(table.rows, table.n_ranks);
  if (!table.op) {
    return Error{
        "which collective this was does not show in it; add a line '# all_gather_perf' or "
        "another program's name",
        path};
  }
  std::vector<MeasuredCalls> measured;
  for (const Row& row : table.rows) {
    measured.push_back(
        {.calls = {{.op = *table.op, .n_bytes = row.n_bytes, .n_ranks = table.n_ranks}},
         .took_ns = row.time_us * 1000.0});
  }
  return measured;
}

}  // namespace lockstep
