// bug = [...]: what breaks the job.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/bugs/bug.h"
#include "lockstep/harness/format/sections.h"
#include "lockstep/harness/scenario/call_sites.h"

namespace lockstep {
namespace {

BugPlace read_place(TableReader& bug, const BugTraits& traits, Problem& problem) {
  BugPlace place;
  place.event = traits.event;
  place.after = traits.after;
  const TomlNode* node = bug.table("at");
  if (node == nullptr) return place;
  TableReader at(*node, "bug.at", problem);
  if (at.has("step")) place.step = at.integer("step", 0);
  const auto points =
      std::span(kWords<LoopPoint>).first(static_cast<std::size_t>(LoopPoint::kSave));
  const std::string event = at.word("event", name_of(traits.event), points, {"save", "load"});
  place.event = parse_word<LoopPoint>(event).value_or(traits.event);
  place.after = at.word("when", traits.after ? "after" : "before", {"before", "after"}) == "after";
  if (at.has("micro")) {
    place.micro = at.integer("micro", 0, 0);
    if (place.event != LoopPoint::kForward && place.event != LoopPoint::kBackward) {
      problem.report("only 'forward' and 'backward' have micro-steps", at.where("micro"));
    }
  }
  at.finish();
  return place;
}

/// What a bug of this kind may say of what it does.
void read_effect(TableReader& table, const BugTraits& traits, BugSpec& bug, Problem& problem) {
  const auto takes = [&](std::string_view key) {
    return std::find(traits.keys.begin(), traits.keys.end(), key) != traits.keys.end();
  };
  if (takes("tensor")) bug.tensor = table.text("tensor", "");
  if (takes("part")) bug.part = table.word("part", bug.part);
  if (takes("element") && table.has("element")) bug.element = table.integer("element", 0);
  if (takes("bit")) bug.bit = table.integer("bit", 0, 0);
  if (takes("value")) bug.value = table.number("value", 0.0);
  if (takes("factor")) bug.factor = table.number("factor", 1.0);
  if (takes("op")) {
    const std::string op = table.word("op", "barrier", {"barrier", "all_reduce"});
    bug.op = parse_word<CollectiveOp>(op).value_or(bug.op);
  }
  if (takes("site")) bug.site = read_site(table, problem);
  if (takes("message")) bug.message = table.text("message", "thrown by the scenario");
}

BugSpec read_bug(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  BugSpec bug;
  bug.where = node.where;
  if (!node.is_table()) {
    problem.report("a bug is a table: { kind = \"write-tensor\", ranks = [1] }", node.where);
    return bug;
  }
  TableReader table(node, "bug", problem);
  const std::string word = table.text("kind", "");
  const std::optional<BugKind> kind = parse_word<BugKind>(word);
  if (!kind) {
    problem.report("unknown bug '" + word + "'" + did_you_mean(word, kWords<BugKind>),
                   table.where("kind"));
    return bug;
  }
  bug.kind = *kind;
  const BugTraits& traits = traits_of(*kind);
  bug.ranks = read_ranks(table, n_ranks, problem);
  bug.at = read_place(table, traits, problem);
  if (bug.kind == BugKind::kSkipStep && bug.at.event == LoopPoint::kWrap) {
    problem.report("bug 'skip-step' cannot leave out the wrapping: set ddp.wrap = false",
                   bug.where);
  }
  read_effect(table, traits, bug, problem);
  table.finish();
  if (traits.needs_tensor && bug.tensor.empty()) {
    problem.report("bug '" + word + "' needs a 'tensor'", bug.where);
  }
  return bug;
}

}  // namespace

RankSet read_ranks(TableReader& table, std::int32_t n_ranks, Problem& problem) {
  RankSet set;
  const TomlNode* node = table.node("ranks");
  if (node == nullptr) return set;
  if (node->kind == TomlNode::Kind::kString && node->text == "all") return set;
  if (!node->is_array()) {
    problem.report("'ranks' is \"all\" or a list such as [0, 2]", node->where);
    return set;
  }
  set.all = false;
  set.ranks = ranks_of(*node, n_ranks, problem);
  return set;
}

std::string read_site(TableReader& table, Problem& problem) {
  std::string site = table.text("site", "");
  if (!site.empty() && !parse_site(site)) {
    problem.report("a site is a file and a line, such as \"save.py:12\", not '" + site + "'",
                   table.where("site"));
  }
  return site;
}

std::vector<BugSpec> read_bugs(TableReader& root, std::int32_t n_ranks, Problem& problem) {
  std::vector<BugSpec> bugs;
  const TomlNode* list = root.array("bug");
  if (list == nullptr) return bugs;
  for (const TomlNode& node : list->items) bugs.push_back(read_bug(node, n_ranks, problem));
  return bugs;
}

}  // namespace lockstep
