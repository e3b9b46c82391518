#include "lockstep/laws/rules/detail/optimizers/option_votes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::laws {

namespace {

// Two places per parameter group; further groups lie below.
constexpr std::int32_t kOptionsMeeting = -2;
constexpr std::int32_t kKindMeeting = -3;
constexpr std::int32_t kGroupsMeeting = std::numeric_limits<std::int32_t>::min();

constexpr std::string_view kRate = "lr";  // As PyTorch's parameter groups name it.

/// What a schedule makes of the rate is judged at each step.
bool is_judged_by_steps(std::string_view option) {
  return option == kRate || option == kScheduleTotal || option == kScheduleMade;
}

}  // namespace

bool is_of_ignored(const Wrappers& wrappers,
                   WrapperKey wrapper,
                   std::span<const NameId> layout,
                   const NameTable& names) {
  const WrapEvent* const wrap = wrappers.find(wrapper);
  if (wrap == nullptr || wrap->ignored == kNoLayout || layout.empty()) return false;
  return std::ranges::all_of(layout,
                             [&](NameId name) { return wrappers.ignored(wrapper, name, names); });
}

void OptionVotes::on_options(const Event& event,
                             const OptimizerEvent& options,
                             RankRange who,
                             const NameTable& names) {
  const AlignmentKey kinds =
      of_.counter.next(event, kKindMeeting - 2 * options.group, kNoLayout, who);
  const AlignmentKey values =
      of_.counter.next(event, kOptionsMeeting - 2 * options.group, options.options, who);
  if (is_of_ignored(of_.wrappers, values.wrapper, names.layout(options.layout), names)) return;
  // What all ranks report alike is grouped alike.
  if (!who.all()) {
    Grouping& own = groupings_[values.wrapper][who.first];
    if (own.groups.empty()) own.step = event.at.opt;
    for (const NameId name : names.layout(options.layout)) {
      own.groups.emplace(names.text(name), options.group);
    }
  }
  std::vector<std::uint64_t> words = {static_cast<std::uint64_t>(options.kind)};
  vote(event, kinds, {words, who}, names);
  for (const double value : options.values) words.push_back(std::bit_cast<std::uint64_t>(value));
  vote(event, values, {words, who}, names);
}

void OptionVotes::vote(const Event& event,
                       const AlignmentKey& alignment,
                       OpenBallots::Vote vote,
                       const NameTable& names) {
  open_.add(alignment,
            event,
            vote,
            of_.wrappers.n_members(alignment.wrapper, of_.n_ranks),
            [&](const AlignmentKey& at, const Ballot& ballot) { judge(at, ballot, names); });
}

void OptionVotes::finish(const NameTable& names) {
  open_.finish([&](const AlignmentKey& at, const Ballot& ballot) { judge(at, ballot, names); });
  for (const auto& [wrapper, ranks] : groupings_) report_groups(wrapper, ranks);
}

void OptionVotes::report_groups(WrapperKey wrapper, const Groupings& ranks) {
  const Grouping& first = ranks.begin()->second;
  const auto same_parameters = [&](const Grouping& own) {
    return std::ranges::equal(
        own.groups,
        first.groups,
        {},
        [](const auto& entry) { return entry.first; },
        [](const auto& entry) { return entry.first; });
  };
  for (const auto& [name, group] : first.groups) {
    Ballot ballot;
    for (const auto& [rank, own] : ranks) {
      if (!same_parameters(own)) return;
      const std::uint64_t words[] = {static_cast<std::uint64_t>(own.groups.at(name))};
      Event voice;
      voice.rank = Rank{rank};
      voice.at.opt = own.step;
      ballot.add(voice, words);
    }
    if (ballot.unanimous()) continue;
    Finding finding;
    finding.attempt = wrapper.attempt;
    finding.event = "options";
    finding.field = "group";
    finding.tensor = name;
    finding.step = ballot.majority_opt();
    finding.ranks = ballot.minority(0);
    finding.message =
        "the ranks put the parameter into different parameter groups: " +
        sides_text(ballot, 0, [](std::uint64_t value) { return "group " + std::to_string(value); });
    finding.cause = Cause::kOptimizerOptionsDiffer;
    const AlignmentKey place{wrapper, 0, kGroupsMeeting, 0, 0};
    if (of_.findings.wants(place, finding.field))
      of_.findings.add(place, "group", std::move(finding));
    return;
  }
}

void OptionVotes::judge(const AlignmentKey& alignment,
                        const Ballot& ballot,
                        const NameTable& names) {
  n_checked_ += ballot.n_comparisons();
  if (ballot.unanimous()) return;
  const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
  for (std::size_t word = 0; word < ballot.n_words(); ++word) {
    std::vector<Rank> ranks = ballot.minority(word);
    const std::string name(word == 0              ? std::string_view("optimizer")
                           : word > layout.size() ? std::string_view("option")
                                                  : names.text(layout[word - 1]));
    if (ranks.empty() || is_judged_by_steps(name) || !of_.findings.wants(alignment, name)) continue;
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = "options";
    finding.field = name;
    finding.step = ballot.majority_opt();
    finding.message = "the ranks created their optimizers with different options: " + name +
                      " is " + sides_text(ballot, word, [&](std::uint64_t value) {
                        return word == 0 ? std::string(names.text(static_cast<NameId>(value)))
                                         : exact(std::bit_cast<double>(value));
                      });
    finding.ranks = std::move(ranks);
    finding.cause = Cause::kOptimizerOptionsDiffer;
    of_.findings.add(alignment, name, std::move(finding));
  }
}

}  // namespace lockstep::laws
