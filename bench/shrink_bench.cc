// How small and how fast: shrinks every failing scenario of a folder, as it is and in a larger
// world.
//
//   shrink_bench [FOLDER]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/explore/shrink/shrink.h"

namespace lockstep::explore {
namespace {

namespace fs = std::filesystem;

struct Row {
  Cost before;
  Cost after;
  std::uint64_t n_tries = 0;
  double ms = 0.0;
};

/// Eight ranks, four times the steps and rows. Nothing for scenarios that name what each rank does.
std::optional<TomlNode> grown(const TomlNode& document) {
  if (document.find("program") != nullptr) return std::nullopt;
  TomlNode larger = copy_of(document);
  drop(larger, "world.nodes");
  drop(larger, "world.ranks_per_node");
  put(larger, "world.ranks", integer_node(8));
  for (const char* key : {"loop.steps", "loop.epochs", "data.size"}) {
    const TomlNode* count = find_at(document, key);
    if (count != nullptr) put(larger, key, integer_node(4 * count->integer));
  }
  return larger;
}

std::optional<Row> measure(const TrialRunner& runner, const TomlNode& document) {
  const auto begin = std::chrono::steady_clock::now();
  const Result<Shrunk> shrunk = shrink(runner, document, "", {});
  const std::chrono::duration<double, std::milli> span = std::chrono::steady_clock::now() - begin;
  if (!shrunk.ok()) return std::nullopt;
  const Shrunk& got = shrunk.value();
  return Row{got.before.cost, got.after.cost, got.n_tries, span.count()};
}

void print(const std::string& name, const Row& row) {
  // What printf takes for any width.  NOLINTNEXTLINE(google-runtime-int)
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%-34s ranks %3lld -> %lld  events %6lld -> %3lld  elements %7lld -> %4lld  "
      "values %3lld -> %2lld  %4llu tries  %8.1f ms\n",
      name.c_str(),
      number(row.before.ranks),
      number(row.after.ranks),
      number(row.before.events),
      number(row.after.events),
      number(row.before.volume),
      number(row.after.volume),
      number(row.before.leaves),
      number(row.after.leaves),
      static_cast<unsigned long long>(row.n_tries),
      row.ms);
}

void print_summary(const char* what, std::vector<Row> rows) {
  if (rows.empty()) return;
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ms < b.ms; });
  std::int64_t most_ranks = 0;
  for (const Row& row : rows) most_ranks = std::max(most_ranks, row.after.ranks);
  std::printf("%s: %zu failures, to at most %lld ranks, median %.1f ms, slowest %.1f ms\n",
              what,
              rows.size(),
              static_cast<long long>(most_ranks),
              rows[rows.size() / 2].ms,
              rows.back().ms);
}

void run(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Row> as_they_are;
  std::vector<Row> larger;
  for (const fs::path& file : files) {
    const TrialRunner runner(file.string());
    const Result<TomlNode> document = load_document(file.string(), "", {});
    if (!document.ok()) continue;
    if (const auto row = measure(runner, document.value())) {
      print(file.stem().string(), *row);
      as_they_are.push_back(*row);
      const auto large = grown(document.value());
      const auto grown_row = large ? measure(runner, *large) : std::nullopt;
      if (!grown_row) continue;
      print(file.stem().string() + ", larger", *grown_row);
      larger.push_back(*grown_row);
    }
  }
  print_summary("as they are", as_they_are);
  print_summary("larger", larger);
}

}  // namespace
}  // namespace lockstep::explore

int main(int argc, char** argv) {
  try {
    lockstep::explore::run(argc > 1 ? argv[1] : "scenarios/zoo");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
