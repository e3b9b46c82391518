#include "lockstep/laws/wait_for.h"

#include <algorithm>
#include <string_view>

#include "lockstep/formats/markup_text.h"
#include "lockstep/laws/report.h"

namespace lockstep::sim {

namespace {

constexpr int kLetter = 7;  // Width of a letter of the font below, in pixels.
constexpr int kBoxHeight = 44;
constexpr int kGap = 22;
constexpr int kMargin = 24;
constexpr int kTitle = 40;
constexpr std::size_t kMaxNamed = 4;

std::string fill_of(WaitForNode::State state) {
  switch (state) {
    case WaitForNode::State::kWaits:
      return "#fff3cd";
    case WaitForNode::State::kEnded:
      return "#e2e3e5";
    case WaitForNode::State::kDied:
      return "#f8d7da";
    case WaitForNode::State::kRunning:
      return "#cfe2ff";
  }
  return "#ffffff";
}

/// For pages that have their own colours.
std::string_view class_of(WaitForNode::State state) {
  switch (state) {
    case WaitForNode::State::kWaits:
      return "waits";
    case WaitForNode::State::kEnded:
      return "ended";
    case WaitForNode::State::kDied:
      return "died";
    case WaitForNode::State::kRunning:
      return "running";
  }
  return "";
}

/// "; missing: rank 2, which waits in barrier #0 of group 0".
std::string absence(const WaitForGraph& graph, const WaitForEdge& edge) {
  const WaitForNode& to = graph.nodes[edge.to];
  const bool one = edge.ranks.size() == 1;
  std::string_view role = "missing:";
  if (to.state == WaitForNode::State::kRunning) role = "late:";
  if (graph.nodes[edge.from].mismatched) role = "called differently by";
  std::string text = "; " + std::string(role) + " " + ranks_text(edge.ranks) + ", which ";
  if (to.state == WaitForNode::State::kWaits) text += one ? "waits in " : "wait in ";
  return text + to.what;
}

/// Characters that end a quoted text of Graphviz.
std::string escape_dot(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter == '\n' ? ' ' : letter;
  }
  return out;
}

int text_width(const std::string& text) { return kLetter * static_cast<int>(text.size()); }

std::string text_at(int x, int y, const std::string& text, const std::string& extra = "") {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"" + extra + ">" +
         escape_markup(text) + "</text>\n";
}

int top_of(std::size_t node) {
  return kTitle + kMargin + static_cast<int>(node) * (kBoxHeight + kGap);
}

/// An arc from the right side of one box to that of another; longer ones reach further out.
std::string arrow(const WaitForEdge& edge, int right, const std::string& head) {
  const int from = top_of(edge.from) + kBoxHeight / 2 - 7;
  const int to = top_of(edge.to) + kBoxHeight / 2 + 7;
  const int distance =
      static_cast<int>(edge.from > edge.to ? edge.from - edge.to : edge.to - edge.from);
  const std::string out = std::to_string(right + 40 + 18 * distance);
  const std::string x = std::to_string(right);
  return "<path class=\"" + std::string(edge.in_cycle ? "arrow cycle" : "arrow") + "\" d=\"M" + x +
         " " + std::to_string(from) + " C" + out + " " + std::to_string(from) + " " + out + " " +
         std::to_string(to) + " " + x + " " + std::to_string(to) + "\" fill=\"none\" stroke=\"" +
         (edge.in_cycle ? "#b02a37" : "#495057") + "\" stroke-width=\"" +
         (edge.in_cycle ? "2" : "1.2") + "\" marker-end=\"url(#" + head + ")\"/>\n";
}

}  // namespace

void WaitForGraph::mark_cycles() {
  const std::size_t n = nodes.size();
  std::vector<std::uint8_t> reaches(n * n, 0);
  for (const WaitForEdge& edge : edges) reaches[edge.from * n + edge.to] = 1;
  for (std::size_t via = 0; via < n; ++via) {
    for (std::size_t from = 0; from < n; ++from) {
      if (reaches[from * n + via] == 0) continue;
      for (std::size_t to = 0; to < n; ++to) {
        if (reaches[via * n + to] != 0) reaches[from * n + to] = 1;
      }
    }
  }
  for (WaitForEdge& edge : edges) edge.in_cycle = reaches[edge.to * n + edge.from] != 0;
}

std::string render_text(const WaitForGraph& graph) {
  std::string out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const WaitForNode& node = graph.nodes[i];
    if (node.state != WaitForNode::State::kWaits) continue;
    out += ranks_text(node.ranks) + (node.ranks.size() == 1 ? " waits for " : " wait for ");
    out += node.what;
    std::size_t n_named = 0;
    for (const WaitForEdge& edge : graph.edges) {
      if (edge.from == i && ++n_named <= kMaxNamed) out += absence(graph, edge);
    }
    if (n_named > kMaxNamed) out += "; and " + std::to_string(n_named - kMaxNamed) + " more";
    out += '\n';
  }
  if (graph.n_left_out > 0) {
    out += "... and " + std::to_string(graph.n_left_out) + " more ranks wait\n";
  }
  return out;
}

std::string render_dot(const WaitForGraph& graph) {
  if (graph.empty()) return {};
  std::string out = "digraph wait_for {\n  node [shape=box, style=filled];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const WaitForNode& node = graph.nodes[i];
    out += "  n" + std::to_string(i) + " [fillcolor=\"" + fill_of(node.state) + "\", label=\"" +
           escape_dot(ranks_text(node.ranks)) + "\\n" + escape_dot(node.what) + "\"];\n";
  }
  for (const WaitForEdge& edge : graph.edges) {
    out += "  n" + std::to_string(edge.from) + " -> n" + std::to_string(edge.to) +
           (edge.in_cycle ? " [color=\"#b02a37\", penwidth=2]" : "") + ";\n";
  }
  return out + "}\n";
}

std::string render_svg(const WaitForGraph& graph,
                       const std::string& title,
                       const std::string& head) {
  std::size_t letters = 12;
  std::size_t furthest = 0;
  for (const WaitForNode& node : graph.nodes) {
    letters = std::max({letters, ranks_text(node.ranks).size(), node.what.size()});
  }
  for (const WaitForEdge& edge : graph.edges) {
    furthest = std::max(furthest, std::max(edge.from, edge.to) - std::min(edge.from, edge.to));
  }
  const int right = kMargin + kLetter * static_cast<int>(letters) + 20;
  const int width =
      std::max(right + 60 + 18 * static_cast<int>(furthest), text_width(title) + 2 * kMargin);
  const int height = top_of(graph.nodes.size()) + kMargin;
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"wait-for\" width=\"" +
                    std::to_string(width) + "\" height=\"" + std::to_string(height) +
                    "\" font-family=\"monospace\" font-size=\"11\">\n"
                    "<defs><marker id=\"" +
                    head +
                    "\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" "
                    "refY=\"3\" orient=\"auto\"><path d=\"M0 0L7 3L0 6z\"/></marker></defs>\n"
                    "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  out += text_at(kMargin, kTitle, title, " font-size=\"13\" font-weight=\"bold\"");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const WaitForNode& node = graph.nodes[i];
    out += "<rect class=\"" + std::string(class_of(node.state)) + "\" x=\"" +
           std::to_string(kMargin) + "\" y=\"" + std::to_string(top_of(i)) + "\" width=\"" +
           std::to_string(right - kMargin) + "\" height=\"" + std::to_string(kBoxHeight) +
           "\" rx=\"6\" stroke=\"#495057\" fill=\"" + fill_of(node.state) + "\"/>\n";
    out += text_at(kMargin + 10, top_of(i) + 18, ranks_text(node.ranks), " font-weight=\"bold\"");
    out += text_at(kMargin + 10, top_of(i) + 34, node.what);
  }
  for (const WaitForEdge& edge : graph.edges) out += arrow(edge, right, head);
  std::string foot = graph.empty() ? "no rank waits" : "an arrow points at what is waited for";
  if (graph.n_left_out > 0) {
    foot += "; " + std::to_string(graph.n_left_out) + " more ranks are not shown";
  }
  out += text_at(kMargin, height - 10, foot, " class=\"foot\" fill=\"#6c757d\"");
  return out + "</svg>\n";
}

}  // namespace lockstep::sim
