// Which ranks wait for which when none can run: as a value, as Graphviz text and as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/types.h"

namespace lockstep::sim {

/// Ranks that do the same thing, and what it is.
struct WaitForNode {
  /// What a rank does at the moment of the verdict.
  enum class State : std::uint8_t {
    kWaits,    ///< In a collective, for a message, or outside its groups.
    kEnded,    ///< Its program ended normally.
    kDied,     ///< It threw or was killed.
    kRunning,  ///< Can continue, but has not posted: late, not missing.
  };

  State state = State::kWaits;
  std::string what;         ///< "barrier #0 of group 0 at save.py:12", "ended normally".
  std::vector<Rank> ranks;  ///< Ascending.
  bool mismatched = false;  ///< All members posted, but different calls: it never completes.
};

/// The ranks of `from` wait for some of those of `to`.
struct WaitForEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::vector<Rank> ranks;  ///< The ones that are waited for, ascending.
  bool in_cycle = false;    ///< `to` waits, over others or not, for `from`.
};

/// Waiting nodes by their lowest rank, then the nodes that they wait for.
struct WaitForGraph {
  static constexpr std::size_t kMaxNodes = 48;

  std::vector<WaitForNode> nodes;
  std::vector<WaitForEdge> edges;
  std::size_t n_left_out = 0;  ///< Ranks that no node shows: a picture is for people.

  bool empty() const { return nodes.empty(); }

  /// Fills in which edges lie on cycles.
  void mark_cycles();
};

/// One line per waiting node: what it waits for, which ranks are missing or late and what they do.
std::string render_text(const WaitForGraph& graph);
/// Graphviz: `dot -Tsvg`.
std::string render_dot(const WaitForGraph& graph);
/// One SVG file without scripts, fonts or links: boxes from top to bottom, arrows next to them.
/// Its parts have classes, for pages that colour it their own way: paper, waits, ended, died,
/// running, arrow, cycle, foot.
std::string render_svg(const WaitForGraph& graph,
                       const std::string& title,
                       const std::string& head = "head");

}  // namespace lockstep::sim
