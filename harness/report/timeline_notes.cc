#include "lockstep/harness/report/timeline_notes.h"

#include <utility>

namespace lockstep {

namespace {

void add_notes(const Finding& finding, std::vector<TimelineNote>& notes) {
  const std::vector<Rank> rank_zero = {Rank{0}};
  for (const Rank rank : finding.ranks.empty() ? rank_zero : finding.ranks) {
    TimelineNote note = {.rank = rank,
                         .title = finding.law,
                         .text = sentence(finding),
                         .attempt = finding.attempt,
                         .step = finding.step,
                         .group = {},
                         .seq = finding.seq};
    if (finding.seq) note.group = finding.group;
    notes.push_back(std::move(note));
  }
}

}  // namespace

std::vector<TimelineNote> timeline_notes(const Report& report) {
  std::vector<TimelineNote> notes;
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) add_notes(finding, notes);
  }
  return notes;
}

}  // namespace lockstep
