// Which parameters travel together, and in which order.
#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/harness/report/detail/sections.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/trace/timeline.h"

namespace lockstep::page {

namespace {

constexpr std::size_t kMaxLayouts = 4;
constexpr std::size_t kMaxBuckets = 40;
constexpr std::size_t kMaxPieces = 400;
constexpr double kBucketLabels = 96;
constexpr double kBarWidth = 840;

/// One parameter of a bucket.
struct Piece {
  std::string name;
  std::int64_t n_bytes = 0;  ///< 0 = unknown.
};

struct DrawnBucket {
  std::vector<Piece> pieces;
  std::int64_t n_bytes = 0;
  std::string call;  ///< The first call that carried it: "all_reduce #1".
};

struct BucketLayout {
  std::int32_t attempt = 0;
  std::int32_t wrapper = -1;
  std::int64_t step = 0;
  std::int64_t cap_bytes = 0;
  std::vector<DrawnBucket> buckets;
  std::size_t n_called = 0;  ///< Buckets whose call is known.
};

/// Reads the layouts from one rank's events.
class LayoutReader {
 public:
  explicit LayoutReader(const NameTable& names) : names_(names) {}

  std::vector<BucketLayout> read(std::span<const Event> events) {
    for (const Event& event : events) {
      if (const auto* grad = std::get_if<GradEvent>(&event.body)) learn_sizes(*grad);
    }
    for (const Event& event : events) {
      if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
        wraps_[{event.at.attempt, event.at.wrapper}] = *wrap;
      } else if (const auto* layout = std::get_if<BucketEvent>(&event.body)) {
        add_layout(event, *layout);
      } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
        name_call(*call);
      }
    }
    return std::move(layouts_);
  }

 private:
  void learn_sizes(const GradEvent& grad) {
    const std::span<const NameId> layout = names_.layout(grad.layout);
    const auto element = static_cast<std::int64_t>(size_of(grad.dtype));
    for (std::size_t i = 0; i < std::min(layout.size(), grad.n_elems.size()); ++i) {
      bytes_[layout[i]] = grad.n_elems[i] * element;
    }
  }

  void add_layout(const Event& event, const BucketEvent& from) {
    const auto wrap = wraps_.find({event.at.attempt, event.at.wrapper});
    if (wrap == wraps_.end()) return;
    const std::span<const NameId> params = names_.layout(wrap->second.params);
    BucketLayout layout;
    layout.attempt = event.at.attempt;
    layout.wrapper = event.at.wrapper;
    layout.step = event.at.opt;
    layout.cap_bytes = wrap->second.bucket_cap_bytes;
    std::size_t next = 0;
    for (const std::int32_t length : from.lengths) {
      DrawnBucket bucket;
      for (std::int32_t i = 0; i < length && next < from.indices.size(); ++i, ++next) {
        bucket.pieces.push_back(piece_of(params, from.indices[next]));
        bucket.n_bytes += bucket.pieces.back().n_bytes;
      }
      layout.buckets.push_back(std::move(bucket));
    }
    layouts_.push_back(std::move(layout));
  }

  Piece piece_of(std::span<const NameId> params, std::int32_t index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= params.size()) return {"?", 0};
    const NameId name = params[static_cast<std::size_t>(index)];
    const auto bytes = bytes_.find(name);
    return {std::string(names_.text(name)), bytes == bytes_.end() ? 0 : bytes->second};
  }

  /// Buckets are launched in their order: the next call for one is the next bucket's.
  void name_call(const CollectiveEvent& call) {
    if (call.phase != CollectivePhase::kPosted || !reduces_bucket(call)) return;
    if (layouts_.empty()) return;
    BucketLayout& layout = layouts_.back();
    if (layout.n_called == layout.buckets.size()) return;
    layout.buckets[layout.n_called++].call =
        std::string(name_of(call.signature.op)) + " #" + std::to_string(call.seq);
  }

  const NameTable& names_;
  std::map<NameId, std::int64_t> bytes_;
  std::map<std::pair<std::int32_t, std::int32_t>, WrapEvent> wraps_;
  std::vector<BucketLayout> layouts_;
};

std::string bytes_text(std::int64_t n) {
  if (n <= 0) return "unknown";
  if (n < 10'000) return std::to_string(n) + " B";
  if (n < 10'000'000) return short_number(static_cast<double>(n) / 1024.0) + " KiB";
  return short_number(static_cast<double>(n) / 1048576.0) + " MiB";
}

/// Lengths of the bars: bytes where they are known, else a unit a parameter.
double measure(const Piece& piece, bool known) {
  return known ? static_cast<double>(piece.n_bytes) : 1.0;
}

void draw_pieces(const DrawnBucket& bucket, bool known, double unit, double top, Html& out) {
  double x = kBucketLabels;
  for (std::size_t p = 0; p < bucket.pieces.size(); ++p) {
    const Piece& piece = bucket.pieces[p];
    const double width = std::max(1.0, measure(piece, known) * unit);
    out.open("rect",
             {{"class", p % 2 == 0 ? "piece" : "piece other"},
              {"x", pixels(x)},
              {"y", pixels(top)},
              {"width", pixels(width)},
              {"height", "20"}});
    out.element("title", piece.name + ": " + bytes_text(piece.n_bytes)).close("rect");
    const double needed = 7.0 * static_cast<double>(piece.name.size()) + 8;
    if (width > needed) {
      out.element(
          "text", piece.name, {{"x", pixels(x + 5)}, {"y", pixels(top + 14)}, {"class", "inside"}});
    }
    x += width;
  }
}

void draw_layout(const BucketLayout& layout, Html& out) {
  const std::size_t n_drawn = std::min(layout.buckets.size(), kMaxBuckets);
  bool known = true;
  double widest = 1;
  for (const DrawnBucket& bucket : layout.buckets) {
    for (const Piece& piece : bucket.pieces) known = known && piece.n_bytes > 0;
  }
  for (const DrawnBucket& bucket : layout.buckets) {
    double length = 0;
    for (const Piece& piece : bucket.pieces) length += measure(piece, known);
    widest = std::max(widest, length);
  }
  out.open_scroll("Buckets in the order of their launch");
  out.open_picture("Buckets and their parameters; the table below has the same data",
                   kBucketLabels + kBarWidth + 10,
                   static_cast<double>(n_drawn) * 26 + 4);
  for (std::size_t b = 0; b < n_drawn; ++b) {
    const double top = static_cast<double>(b) * 26 + 2;
    const std::string name = "bucket " + std::to_string(b);
    out.open(
        "g",
        {{"role", "img"},
         {"tabindex", "0"},
         {"aria-label",
          name + ": " +
              counted(static_cast<std::int64_t>(layout.buckets[b].pieces.size()), "parameter")}});
    out.element("text", name, {{"x", "0"}, {"y", pixels(top + 14)}, {"class", "lane"}});
    draw_pieces(layout.buckets[b], known, kBarWidth / widest, top, out);
    out.close("g");
  }
  out.close("svg").close("div");
}

std::string pieces_text(const DrawnBucket& bucket, std::size_t& n_left) {
  std::string text;
  std::size_t n_hidden = 0;
  for (const Piece& piece : bucket.pieces) {
    if (n_left == 0) {
      ++n_hidden;
      continue;
    }
    --n_left;
    text += (text.empty() ? "" : ", ") + piece.name;
  }
  return n_hidden == 0 ? text : text + " and " + std::to_string(n_hidden) + " more";
}

void write_layout(const BucketLayout& layout, Html& out) {
  std::string title = layout.step == 0
                          ? "Buckets of wrapper " + std::to_string(std::max(layout.wrapper, 0))
                          : "Rebuilt in step " + std::to_string(layout.step);
  if (layout.attempt > 0) title += " of attempt " + std::to_string(layout.attempt);
  out.element("h4", title + ", limit " + bytes_text(layout.cap_bytes));
  draw_layout(layout, out);
  if (layout.buckets.size() > kMaxBuckets) {
    out.element("p",
                "Showing the first " + std::to_string(kMaxBuckets) + " of " +
                    std::to_string(layout.buckets.size()) + " buckets.",
                {{"class", "thinned"}});
  }
  out.open_table("Buckets in the order of their launch",
                 {"Bucket", "Bytes", "First call", "Parameters"});
  std::size_t n_left = kMaxPieces;
  for (std::size_t b = 0; b < std::min(layout.buckets.size(), 4 * kMaxBuckets); ++b) {
    const DrawnBucket& bucket = layout.buckets[b];
    out.row({"bucket " + std::to_string(b),
             bytes_text(bucket.n_bytes),
             bucket.call.empty() ? "none" : bucket.call,
             pieces_text(bucket, n_left)});
  }
  out.close_table();
}

/// The lowest rank that has layouts speaks for all: ranks that disagree break collectives-match.
std::vector<BucketLayout> layouts_of(const MemoryTrace& trace) {
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    std::vector<BucketLayout> layouts = LayoutReader(trace.names()).read(trace.events(Rank{r}));
    if (!layouts.empty()) return layouts;
  }
  return {};
}

}  // namespace

void write_buckets(const RunView& run, const std::string& id, Html& out) {
  out.open_section(id + "-buckets", "Buckets");
  const std::vector<BucketLayout> layouts = layouts_of(*run.trace);
  if (layouts.empty()) {
    out.element("p", "No gradient buckets were recorded.", {{"class", "calm"}});
  }
  for (std::size_t i = 0; i < std::min(layouts.size(), kMaxLayouts); ++i) {
    write_layout(layouts[i], out);
  }
  if (layouts.size() > kMaxLayouts) {
    out.element("p",
                "Showing the first " + std::to_string(kMaxLayouts) + " of " +
                    std::to_string(layouts.size()) + " layouts.",
                {{"class", "thinned"}});
  }
  out.close("section");
}

}  // namespace lockstep::page
