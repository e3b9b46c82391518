// Ranks against steps: where a replica's parameters differ from those of most ranks.
#include <algorithm>

#include "lockstep/compare/divergence.h"
#include "lockstep/harness/report/detail/sections.h"

namespace lockstep::page {

namespace {

constexpr std::size_t kMaxRows = 48;
constexpr std::size_t kMaxColumns = 96;
constexpr std::size_t kMaxListed = 200;
constexpr double kMapLabels = 70;
constexpr double kMapWidth = 900;

/// Steps that are drawn as one column.
struct StepRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<StepRange> columns_of(std::size_t n_steps) {
  const std::size_t width = (n_steps + kMaxColumns - 1) / kMaxColumns;
  std::vector<StepRange> columns;
  columns.reserve(kMaxColumns);
  for (std::size_t first = 0; first < n_steps; first += width) {
    columns.push_back({first, std::min(first + width, n_steps) - 1});
  }
  return columns;
}

bool differs(const DivergenceCell& cell) { return cell.n_tensors > 0; }

std::vector<std::size_t> diverged_ranks(const std::vector<DivergenceStep>& steps) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < steps.front().ranks.size(); ++r) {
    const bool any = std::any_of(steps.begin(), steps.end(), [r](const DivergenceStep& step) {
      return differs(step.ranks[r]);
    });
    if (any) ranks.push_back(r);
  }
  return ranks;
}

/// Rows of the picture: all ranks, or those that differ and then the lowest.
std::vector<std::size_t> rows_of(const std::vector<DivergenceStep>& steps,
                                 const std::vector<std::size_t>& diverged) {
  std::vector<std::size_t> rows(
      diverged.begin(),
      diverged.begin() + static_cast<std::ptrdiff_t>(std::min(diverged.size(), kMaxRows)));
  for (std::size_t r = 0; r < steps.front().ranks.size() && rows.size() < kMaxRows; ++r) {
    if (!std::binary_search(diverged.begin(), diverged.end(), r)) rows.push_back(r);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

/// The worst of a rank's cells in some steps.
DivergenceCell worst(const std::vector<DivergenceStep>& steps, StepRange range, std::size_t rank) {
  DivergenceCell worst;
  for (std::size_t s = range.first; s <= range.last; ++s) {
    const DivergenceCell& cell = steps[s].ranks[rank];
    if (cell.n_tensors > worst.n_tensors) worst = cell;
  }
  return worst;
}

std::string level_of(const DivergenceCell& cell) {
  if (cell.n_tensors < 0) return "cell nothing";
  if (cell.n_tensors == 0) return "cell equal";
  if (cell.n_tensors == 1) return "cell one";
  return cell.n_tensors < 5 ? "cell few" : "cell many";
}

std::string steps_text(const std::vector<DivergenceStep>& steps, StepRange range) {
  const DivergenceStep& first = steps[range.first];
  std::string text = first.attempt > 0 ? "attempt " + std::to_string(first.attempt) + ", " : "";
  if (range.first == range.last) return text + "step " + std::to_string(first.step);
  return text + "steps " + std::to_string(first.step) + " to " +
         std::to_string(steps[range.last].step);
}

std::string cell_text(const DivergenceCell& cell) {
  if (cell.n_tensors < 0) return "nothing recorded";
  if (cell.n_tensors == 0) return "equal to the majority";
  const std::string rest =
      cell.n_tensors > 1 ? " and " + std::to_string(cell.n_tensors - 1) + " more" : "";
  return cell.first + rest + " differ" + (cell.n_tensors == 1 ? "s" : "") + " from the majority";
}

class HeatMap {
 public:
  HeatMap(const std::vector<DivergenceStep>& steps, Html& out)
      : steps_(steps), out_(out), columns_(columns_of(steps.size())) {
    width_ = std::clamp(kMapWidth / static_cast<double>(columns_.size()), 8.0, 28.0);
  }

  void draw(const std::vector<std::size_t>& rows) {
    const double height = static_cast<double>(rows.size()) * kRow + 30;
    out_.open_scroll("Heat map of diverged replicas");
    out_.open_picture("Ranks against steps; the table below has the same data",
                      kMapLabels + width_ * static_cast<double>(columns_.size()) + 30,
                      height);
    for (std::size_t i = 0; i < rows.size(); ++i) draw_row(rows[i], static_cast<double>(i) * kRow);
    draw_axis(static_cast<double>(rows.size()) * kRow + 14);
    out_.close("svg").close("div");
  }

 private:
  static constexpr double kRow = 20;

  double left(std::size_t column) const {
    return kMapLabels + width_ * static_cast<double>(column);
  }

  void draw_row(std::size_t rank, double top) {
    const std::string name = "rank " + std::to_string(rank);
    out_.open("g", {{"role", "img"}, {"tabindex", "0"}, {"aria-label", name + label(rank)}});
    out_.element("text", name, {{"x", "0"}, {"y", pixels(top + 13)}, {"class", "lane"}});
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const DivergenceCell cell = worst(steps_, columns_[c], rank);
      out_.open("rect",
                {{"class", level_of(cell)},
                 {"x", pixels(left(c))},
                 {"y", pixels(top)},
                 {"width", pixels(width_ - 1.5)},
                 {"height", pixels(kRow - 2)},
                 {"rx", "2"}});
      out_.element("title", name + ", " + steps_text(steps_, columns_[c]) + ": " + cell_text(cell));
      out_.close("rect");
      if (!differs(cell) || width_ < 16) continue;
      out_.element("text",
                   std::to_string(cell.n_tensors),
                   {{"x", pixels(left(c) + (width_ - 1.5) / 2)},
                    {"y", pixels(top + 13)},
                    {"class", "count"}});
    }
    out_.close("g");
  }

  std::string label(std::size_t rank) const {
    std::size_t n = 0;
    for (const DivergenceStep& step : steps_) n += differs(step.ranks[rank]) ? 1U : 0U;
    if (n == 0) return ": equal to the majority after every step";
    return ": differs after " + counted(static_cast<std::int64_t>(n), "step");
  }

  void draw_axis(double y) {
    const std::size_t n = columns_.size();
    const std::size_t every = std::max<std::size_t>(1, (n + 11) / 12);
    for (std::size_t c = 0; c < n; c += every) {
      out_.element("text",
                   std::to_string(steps_[columns_[c].first].step),
                   {{"x", pixels(left(c) + (width_ - 1.5) / 2)},
                    {"y", pixels(y)},
                    {"class", "tick middle"}});
    }
    out_.element("text", "step", {{"x", "0"}, {"y", pixels(y)}, {"class", "tick"}});
  }

  const std::vector<DivergenceStep>& steps_;
  Html& out_;
  std::vector<StepRange> columns_;
  double width_ = 0;
};

/// Steps in a row in which a rank differs in the same way.
struct DivergedSpan {
  std::size_t rank = 0;
  StepRange range;
};

std::vector<DivergedSpan> diverged_spans(const std::vector<DivergenceStep>& steps,
                                         const std::vector<std::size_t>& ranks) {
  std::vector<DivergedSpan> spans;
  const auto alike = [](const DivergenceCell& a, const DivergenceCell& b) {
    return a.n_tensors == b.n_tensors && a.first == b.first;
  };
  for (const std::size_t rank : ranks) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const DivergenceCell& cell = steps[s].ranks[rank];
      if (!differs(cell)) continue;
      const std::size_t first = s;
      while (s + 1 < steps.size() && alike(steps[s + 1].ranks[rank], cell)) ++s;
      spans.push_back({rank, {first, s}});
    }
  }
  return spans;
}

void write_diverged(const std::vector<DivergenceStep>& steps,
                    const std::vector<std::size_t>& ranks,
                    Html& out) {
  out.open_table("Where parameters differ from those of most ranks",
                 {"Rank", "Steps", "Tensors", "First of them"});
  const std::vector<DivergedSpan> spans = diverged_spans(steps, ranks);
  const std::size_t n_listed = std::min(spans.size(), kMaxListed);
  for (std::size_t i = 0; i < n_listed; ++i) {
    const auto& [rank, range] = spans[i];
    const DivergenceCell& cell = steps[range.first].ranks[rank];
    out.row({"rank " + std::to_string(rank),
             steps_text(steps, range),
             std::to_string(cell.n_tensors),
             cell.first});
  }
  out.close_table();
  if (n_listed < spans.size()) {
    const auto n_left_out = static_cast<std::int64_t>(spans.size() - n_listed);
    out.element("p", "And " + counted(n_left_out, "row") + " more.");
  }
}

void write_key(Html& out) {
  out.open("ul", {{"class", "legend"}});
  const std::pair<const char*, const char*> keys[] = {{"equal", "equal to most ranks"},
                                                      {"one", "one tensor differs"},
                                                      {"few", "2 to 4 differ"},
                                                      {"many", "5 or more differ"},
                                                      {"nothing", "nothing recorded"}};
  for (const auto& [name, meaning] : keys) {
    out.open("li").open("svg", {{"width", "14"}, {"height", "14"}, {"aria-hidden", "true"}});
    out.open("rect",
             {{"class", std::string("cell ") + name},
              {"x", "1"},
              {"y", "1"},
              {"width", "12"},
              {"height", "12"},
              {"rx", "2"}});
    out.close("rect").close("svg").text(meaning).close("li");
  }
  out.close("ul");
}

}  // namespace

void write_heat_map(const RunView& run, const std::string& id, Html& out) {
  out.open_section(id + "-divergence", "Replicas");
  const std::vector<DivergenceStep> steps = divergence_of(*run.trace);
  if (steps.empty()) {
    out.element("p", "No parameters were recorded after steps.", {{"class", "calm"}});
    out.close("section");
    return;
  }
  const std::vector<std::size_t> diverged = diverged_ranks(steps);
  const auto n_steps = static_cast<std::int64_t>(steps.size());
  const auto n_ranks = static_cast<std::int64_t>(steps.front().ranks.size());
  std::string summary = std::to_string(diverged.size()) + " of " + counted(n_ranks, "rank") +
                        " held different parameters from most ranks after some step.";
  if (diverged.empty()) {
    summary = "All ranks held the same parameters, bit for bit, after every step (" +
              counted(n_steps, "step") + ").";
  }
  out.element("p", summary);
  const std::vector<std::size_t> rows = rows_of(steps, diverged);
  HeatMap(steps, out).draw(rows);
  write_key(out);
  if (static_cast<std::int64_t>(rows.size()) < n_ranks) {
    out.element("p",
                "Showing " + std::to_string(rows.size()) + " of " + std::to_string(n_ranks) +
                    " ranks, those that differ first.",
                {{"class", "thinned"}});
  }
  if (steps.size() > kMaxColumns) {
    out.element(
        "p",
        "A column shows several of the " + std::to_string(n_steps) + " steps, the worst of them.",
        {{"class", "thinned"}});
  }
  if (!diverged.empty()) write_diverged(steps, diverged, out);
  out.close("section");
}

}  // namespace lockstep::page
