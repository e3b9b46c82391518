// bug = [...]: what breaks the job.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/bugs/bug.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"
#include "lockstep/harness/scenario/call_sites.h"

namespace lockstep {
namespace {

/// One bug as it is written.
struct BugTable {
  BugKind kind = BugKind::kWriteTensor;
  BugSpec spec;
};

/// A member of what this kind of bug does; of a fresh one where the bug is of another kind.
template <typename What, typename M>
auto of(M What::*member) {
  return [member](BugTable& bug) -> M& {
    auto* const own = std::get_if<What>(&bug.spec.effect);
    return (own != nullptr ? *own : bug.spec.effect.emplace<What>()).*member;
  };
}

/// The tensor of any kind that has one.
std::string& named_tensor(BugTable& bug) {
  std::string* const own = tensor_of(bug.spec.effect);
  return own != nullptr ? *own : bug.spec.effect.emplace<bug::WriteTensor>().tensor;
}

void add_effects_of_bugs(Section<BugTable>& it) {
  it.add("tensor", named_tensor, "A parameter or buffer.")
      .of({BugKind::kFlipBit, BugKind::kWriteTensor})
      .required()
      .stays();
  it.add("tensor", named_tensor, "A parameter or buffer.")
      .of({BugKind::kScaleGradient, BugKind::kZeroMissingGradients})
      .shown("all")
      .stays();
  it.add("part", of(&bug::WriteTensor::part), "The tensor or its gradient.")
      .of({BugKind::kWriteTensor});
  it.add("element", of(&bug::WriteTensor::element), "One element of the tensor.")
      .of({BugKind::kWriteTensor})
      .shown("all")
      .stays();
  it.add("element", of(&bug::FlipBit::element), "One element of the tensor.")
      .of({BugKind::kFlipBit})
      .shown("0")
      .stays();
  it.add("bit", of(&bug::FlipBit::bit), "Of the element, 0 is the lowest.").of({BugKind::kFlipBit});
  it.add("value", of(&bug::WriteTensor::value), "What is written.").of({BugKind::kWriteTensor});
  it.add("factor", of(&bug::ScaleGradient::factor), "What gradients are multiplied by.")
      .links(RankLink::kFactor)
      .of({BugKind::kScaleGradient});
  it.add("op", of(&bug::ExtraCollective::op), "The additional collective.")
      .words({"barrier", "all_reduce"})
      .of({BugKind::kExtraCollective});
  it.code("site", FieldType::kText, "Where it seems to be called: `save.py:12`.")
      .of({BugKind::kExtraCollective});
  it.add("message", of(&bug::Throw::message), "What is thrown.")
      .preset(std::string(kThrown))
      .of({BugKind::kThrow});
}

const Section<BugTable>& bug_section() {
  static const Section<BugTable> section(
      "bug",
      [](Section<BugTable>& it) {
        it.add("kind", &BugTable::kind, "What breaks.").selects().required();
        it.code("ranks", FieldType::kRanks, "Whom it strikes.").shown("all").stays();
        it.code("at", FieldType::kTable, "Where it strikes.").shown("by kind").stays();
        add_effects_of_bugs(it);
      },
      SectionShape::kList);
  return section;
}

std::vector<std::string_view> bug_points() {
  const auto points =
      std::span(kEnumNames<LoopPoint>).first(static_cast<std::size_t>(LoopPoint::kSave));
  return {points.begin(), points.end()};
}

const Section<BugPlace>& bug_place_section() {
  static const Section<BugPlace> section("bug.at", [](Section<BugPlace>& it) {
    it.add("step", &BugPlace::step, "The optimizer step; absent: every step.").counts();
    it.add("event", &BugPlace::event, "The point of the loop.")
        .words(bug_points())
        .later({"save", "load"})
        .shown("by kind");
    it.either("when", &BugPlace::after, "before", "after", "On which side of it.").shown("by kind");
    it.add("micro",
           &BugPlace::micro,
           "One of the step's forwards or backwards if the job accumulates; absent: all.");
    it.all_stays();
  });
  return section;
}

BugPlace read_place(TableReader& bug, const BugTraits& traits, Problem& problem) {
  BugPlace place;
  place.event = traits.event;
  place.after = traits.after;
  const TomlNode* node = bug.table("at");
  if (node == nullptr) return place;
  TableReader at(*node, bug_place_section().name(), problem);
  bug_place_section().read(at, place);
  if (place.micro && place.event != LoopPoint::kForward && place.event != LoopPoint::kBackward) {
    problem.report("only 'forward' and 'backward' have micro-steps", at.where("micro"));
  }
  at.finish();
  return place;
}

BugSpec read_bug(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  BugTable given;
  BugSpec& bug = given.spec;
  bug.where = node.where;
  if (!node.is_table()) {
    problem.report("a bug is a table: { kind = \"write-tensor\", ranks = [1] }", node.where);
    return bug;
  }
  TableReader table(node, bug_section().name(), problem);
  const std::string word = table.text("kind", "");
  const std::optional<BugKind> kind = parse_enum<BugKind>(word);
  if (!kind) {
    problem.report("unknown bug '" + word + "'" + did_you_mean(word, kEnumNames<BugKind>),
                   table.where("kind"));
    return bug;
  }
  bug.effect = effect_of(*kind);
  bug_section().read(table, given);
  bug.ranks = read_ranks(table, n_ranks, problem);
  bug.at = read_place(table, traits_of(*kind), problem);
  if (*kind == BugKind::kSkipStep && bug.at.event == LoopPoint::kWrap) {
    problem.report("bug 'skip-step' cannot leave out the wrapping: set ddp.wrap = false",
                   bug.where);
  }
  if (auto* const extra = std::get_if<bug::ExtraCollective>(&bug.effect)) {
    extra->site = read_site(table, problem);
  }
  table.finish();
  if (const SchemaField* missing = bug_section().missing(table, given)) {
    problem.report("bug '" + word + "' needs a '" + missing->key + "'", bug.where);
  }
  return bug;
}

}  // namespace

std::vector<SchemaSection> bug_sections() {
  return {bug_section().described(), bug_place_section().described()};
}

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
