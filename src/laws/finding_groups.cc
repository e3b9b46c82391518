#include "lockstep/laws/detail/finding_groups.h"

#include <algorithm>
#include <tuple>

#include "lockstep/laws/detail/finding_text.h"

namespace lockstep::laws {

namespace {

bool says_the_same(const Finding& one, const Finding& other) {
  const auto key = [](const Finding& finding) {
    return std::tie(finding.law,
                    finding.attempt,
                    finding.epoch,
                    finding.step,
                    finding.event,
                    finding.group,
                    finding.ranks,
                    finding.cause);
  };
  return !one.tensor.empty() && !other.tensor.empty() && key(one) == key(other);
}

void add_place(const Finding& finding, std::vector<FindingGroup>& places) {
  const auto same = std::find_if(places.begin(), places.end(), [&](const FindingGroup& group) {
    return says_the_same(*group.first, finding);
  });
  if (same != places.end()) {
    ++same->n;
  } else {
    places.push_back({.first = &finding, .n = 1});
  }
}

FindingBlock& block_for(const Finding& finding, std::vector<FindingBlock>& blocks) {
  const auto same = std::find_if(blocks.begin(), blocks.end(), [&](const FindingBlock& block) {
    return block.cause == finding.cause &&
           (block.cause != Cause::kNone || block.law == finding.law);
  });
  if (same != blocks.end()) return *same;
  blocks.push_back({.cause = finding.cause, .law = finding.law});
  return blocks.back();
}

std::tuple<std::int32_t, std::int64_t> when(const FindingGroup& group) {
  return {group.first->attempt, group.first->step.value_or(-1)};
}

}  // namespace

std::vector<FindingBlock> blocks_of(const Report& report) {
  std::vector<FindingBlock> blocks;
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) {
      add_place(finding, block_for(finding, blocks).places);
    }
  }
  for (FindingBlock& block : blocks) {
    std::stable_sort(block.places.begin(),
                     block.places.end(),
                     [](const auto& one, const auto& other) { return when(one) < when(other); });
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](const auto& one, const auto& other) {
    const auto rank = [](const FindingBlock& block) {
      return std::tuple(block.cause == Cause::kNone, when(block.places.front()));
    };
    return rank(one) < rank(other);
  });
  return blocks;
}

std::string line_of(const FindingGroup& group) {
  return finding_text(*group.first, {.n_alike = group.n - 1, .cause = false, .brief = true});
}

}  // namespace lockstep::laws
