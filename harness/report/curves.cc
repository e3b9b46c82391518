// Losses and metrics over the steps.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/harness/report/detail/sections.h"
#include "lockstep/harness/report/recorded_losses.h"

namespace lockstep::page {

namespace {

constexpr std::size_t kMaxPoints = 400;
constexpr std::size_t kMaxTableRows = 60;
constexpr std::size_t kMaxMetrics = 100;
constexpr double kPlotLeft = 70;
constexpr double kPlotTop = 12;
constexpr double kPlotWidth = 860;
constexpr double kPlotHeight = 220;

/// The losses of all ranks after one step.
struct LossPoint {
  std::size_t index = 0;
  std::int64_t step = 0;
  double mean = 0.0;
  double low = 0.0;
  double high = 0.0;
  bool finite = true;
};

std::vector<LossPoint> loss_points(const std::vector<std::vector<double>>& losses,
                                   std::int64_t first_step) {
  std::size_t n_steps = 0;
  for (const std::vector<double>& of_rank : losses) n_steps = std::max(n_steps, of_rank.size());
  std::vector<LossPoint> points;
  points.reserve(n_steps);
  for (std::size_t s = 0; s < n_steps; ++s) {
    LossPoint point{.index = s,
                    .step = first_step + static_cast<std::int64_t>(s),
                    .mean = 0.0,
                    .low = 0.0,
                    .high = 0.0,
                    .finite = true};
    double n = 0;
    for (const std::vector<double>& of_rank : losses) {
      if (s >= of_rank.size()) continue;
      const double loss = of_rank[s];
      point.finite = point.finite && std::isfinite(loss);
      point.low = n == 0 ? loss : std::min(point.low, loss);
      point.high = n == 0 ? loss : std::max(point.high, loss);
      point.mean += loss;
      n += 1;
    }
    point.mean /= n;
    points.push_back(point);
  }
  return points;
}

/// Every n-th point, so that at most `most` are left.
std::vector<LossPoint> every_nth(const std::vector<LossPoint>& points, std::size_t most) {
  const std::size_t stride = std::max<std::size_t>(1, (points.size() + most - 1) / most);
  std::vector<LossPoint> kept;
  kept.reserve(most);
  for (std::size_t i = 0; i < points.size(); i += stride) kept.push_back(points[i]);
  return kept;
}

/// From values to heights: linear, or logarithmic where losses span more than two decades.
struct LossScale {
  double low = 0.0;
  double high = 1.0;
  bool log = false;

  double y(double value) const {
    const double part =
        log ? (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low))
            : (value - low) / (high - low);
    return kPlotTop + kPlotHeight * (1.0 - part);
  }

  double value(double part) const {
    if (!log) return low + part * (high - low);
    return std::pow(10.0, std::log10(low) + part * (std::log10(high) - std::log10(low)));
  }
};

std::optional<LossScale> loss_scale(const std::vector<LossPoint>& points) {
  std::optional<LossScale> scale;
  for (const LossPoint& point : points) {
    if (!point.finite) continue;
    if (!scale) scale = LossScale{point.low, point.high, false};
    scale->low = std::min(scale->low, point.low);
    scale->high = std::max(scale->high, point.high);
  }
  if (!scale) return scale;
  scale->log = scale->low > 0 && scale->high > 100 * scale->low;
  if (!scale->log && scale->low > 0) scale->low = 0;
  if (scale->high == scale->low) scale->high = scale->low + 1;
  return scale;
}

double loss_x(std::size_t index, std::size_t n_steps) {
  if (n_steps < 2) return kPlotLeft;
  return kPlotLeft + kPlotWidth * static_cast<double>(index) / static_cast<double>(n_steps - 1);
}

void draw_loss_axes(const LossScale& scale, const std::vector<LossPoint>& points, Html& out) {
  const std::size_t n_steps = points.size();
  for (int i = 0; i <= 4; ++i) {
    const double value = scale.value(i / 4.0);
    const std::string y = pixels(scale.y(value));
    out.open("line",
             {{"class", "grid"},
              {"x1", pixels(kPlotLeft)},
              {"x2", pixels(kPlotLeft + kPlotWidth)},
              {"y1", y},
              {"y2", y}});
    out.close("line");
    out.element(
        "text",
        short_number(value),
        {{"class", "tick end"}, {"x", pixels(kPlotLeft - 8)}, {"y", pixels(scale.y(value) + 4)}});
  }
  const std::size_t every = std::max<std::size_t>(1, (n_steps + 9) / 10);
  for (std::size_t s = 0; s < n_steps; s += every) {
    out.element("text",
                std::to_string(points[s].step),
                {{"class", "tick middle"},
                 {"x", pixels(loss_x(s, n_steps))},
                 {"y", pixels(kPlotTop + kPlotHeight + 18)}});
  }
  out.element(
      "text", "step", {{"class", "tick"}, {"x", "0"}, {"y", pixels(kPlotTop + kPlotHeight + 18)}});
}

/// A line through the means; losses that are not finite break it.
std::string mean_path(const std::vector<LossPoint>& points,
                      const LossScale& scale,
                      std::size_t n_steps) {
  std::string path;
  bool drawing = false;
  for (const LossPoint& point : points) {
    if (point.finite) {
      path += (drawing ? "L" : "M") + pixels(loss_x(point.index, n_steps)) + " " +
              pixels(scale.y(point.mean));
    }
    drawing = point.finite;
  }
  return path;
}

/// From the lowest rank's loss to the highest one's, around the line.
std::string band_points(const std::vector<LossPoint>& points,
                        const LossScale& scale,
                        std::size_t n_steps) {
  std::string there;
  std::string back;
  for (const LossPoint& point : points) {
    if (!point.finite) continue;
    const std::string x = pixels(loss_x(point.index, n_steps)) + ",";
    there += x + pixels(scale.y(point.high)) + " ";
    back.insert(0, x + pixels(scale.y(point.low)) + " ");
  }
  return there + back;
}

void draw_losses(const std::vector<LossPoint>& points, Html& out) {
  const std::optional<LossScale> scale = loss_scale(points);
  if (!scale) return;
  const std::vector<LossPoint> drawn = every_nth(points, kMaxPoints);
  out.open_scroll("Loss over the steps");
  out.open_picture("Loss over the steps; the table below has the same data",
                   kPlotLeft + kPlotWidth + 30,
                   kPlotTop + kPlotHeight + 28);
  draw_loss_axes(*scale, points, out);
  out.open("polygon", {{"class", "band"}, {"points", band_points(drawn, *scale, points.size())}});
  out.close("polygon");
  out.open("path", {{"class", "mean"}, {"d", mean_path(drawn, *scale, points.size())}});
  out.close("path");
  // A line needs two points.
  for (const LossPoint& point : points) {
    if (points.size() > 40 || !point.finite) continue;
    out.open("circle",
             {{"class", "dot"},
              {"cx", pixels(loss_x(point.index, points.size()))},
              {"cy", pixels(scale->y(point.mean))},
              {"r", "3"}});
    out.element("title", "step " + std::to_string(point.step) + ": " + short_number(point.mean));
    out.close("circle");
  }
  out.close("svg").close("div");
  std::string note =
      "The line is the mean over ranks, the band reaches from the lowest to the highest.";
  if (scale->log) note += " The scale is logarithmic.";
  if (drawn.size() < points.size()) {
    note += " Showing " + std::to_string(drawn.size()) + " of " + std::to_string(points.size()) +
            " steps.";
  }
  out.element("p", note, {{"class", "thinned"}});
}

void write_losses(const std::vector<LossPoint>& points, Html& out) {
  const std::vector<LossPoint> rows = every_nth(points, kMaxTableRows);
  out.open_details("Losses as a table");
  out.open_table(rows.size() < points.size() ? "Every n-th step's loss" : "Loss of each step",
                 {"Step", "Mean over ranks", "Lowest rank", "Highest rank"});
  for (const LossPoint& point : rows) {
    out.row({std::to_string(point.step),
             short_number(point.mean),
             short_number(point.low),
             short_number(point.high)});
  }
  out.close_table().close("details");
}

void write_metrics(const MemoryTrace& trace, Html& out) {
  std::size_t n_rows = 0;
  for (const Event& event : trace.events(Rank{0})) {
    const auto* metric = std::get_if<MetricEvent>(&event.body);
    if (metric == nullptr || n_rows > kMaxMetrics) continue;
    if (n_rows++ == 0) {
      out.open_table("Metrics, as rank 0 reports them",
                     {"Metric", "Epoch", "Value", "Numerator", "Denominator"});
    }
    if (n_rows > kMaxMetrics) continue;
    out.row({std::string(trace.names().text(metric->name)),
             std::to_string(event.at.epoch),
             exact(metric->value),
             exact(metric->numerator),
             exact(metric->denominator)});
  }
  if (n_rows > 0) out.close_table();
  if (n_rows > kMaxMetrics) {
    out.element("p",
                "Showing the first " + std::to_string(kMaxMetrics) + " of them.",
                {{"class", "thinned"}});
  }
}

}  // namespace

void write_curves(const RunView& run, const std::string& id, Html& out) {
  out.open_section(id + "-losses", "Loss and metrics");
  RecordedLosses losses{run.first_loss_step, run.losses};
  if (run.losses.empty() && run.trace != nullptr) losses = recorded_losses(*run.trace);
  const std::vector<LossPoint> points = loss_points(losses.by_rank, losses.first_step);
  if (points.empty()) {
    out.element("p", "No losses were recorded.", {{"class", "calm"}});
  } else {
    const auto strange = std::find_if(
        points.begin(), points.end(), [](const LossPoint& point) { return !point.finite; });
    if (strange != points.end()) {
      out.element("p",
                  "A rank's loss is not finite from step " + std::to_string(strange->step) +
                      " on, or at times.",
                  {{"class", "alarm"}});
    }
    draw_losses(points, out);
    write_losses(points, out);
  }
  write_metrics(*run.trace, out);
  out.close("section");
}

}  // namespace lockstep::page
