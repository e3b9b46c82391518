#include "lockstep/laws/detail/group_order.h"

#include <algorithm>
#include <set>

namespace lockstep::laws {

/// Where two ranks part: `left` enters its call while `right` enters one of the other group.
struct GroupOrder::Inversion {
  Run left;
  Run right;
};

void GroupOrder::on_posted(const Event& event,
                           const CollectiveEvent& call,
                           RankRange who,
                           std::int64_t n) {
  const CollectiveOp op = call.signature.op;
  if (n == 0 || op == CollectiveOp::kSend || op == CollectiveOp::kRecv) return;
  if (event.at.attempt < attempt_) return;
  if (event.at.attempt > attempt_) {
    attempt_ = event.at.attempt;
    runs_ = {};
  }
  std::vector<Run>& runs = runs_.at({}, who);
  if (!runs.empty() && runs.back().group == call.group) {
    runs.back().n += n;
  } else if (runs.size() < kMaxRuns) {
    runs.push_back({call.group, call.seq + 1 - n, n, call.signature.site});
  }
}

/// The run without its first `n_done` calls; their site is only known of the first one.
GroupOrder::Run GroupOrder::from(const Run& run, std::int64_t n_done) {
  if (n_done == 0) return run;
  return {run.group, run.first + n_done, run.n - n_done, {}};
}

/// The runs of two groups alone; neighbours of one group become one.
std::vector<GroupOrder::Run> GroupOrder::merged(const std::vector<Run>& runs, const Pair& pair) {
  std::vector<Run> result;
  for (const Run& run : runs) {
    if (run.group != pair.low && run.group != pair.high) continue;
    if (!result.empty() && result.back().group == run.group) {
      result.back().n += run.n;
    } else {
      result.push_back(run);
    }
  }
  return result;
}

/// Two orders of the same calls part where one rank enters a call of one group while the other
/// enters one of the other group. It is an inversion if each enters, later, what the other entered
/// first.
bool GroupOrder::inverted(const std::vector<Run>& left,
                          const std::vector<Run>& right,
                          Inversion& at) {
  std::size_t l = 0;
  std::size_t r = 0;
  std::int64_t l_done = 0;  // Calls of the current run that have been compared.
  std::int64_t r_done = 0;
  while (l < left.size() && r < right.size() && left[l].group == right[r].group) {
    const std::int64_t n = std::min(left[l].n - l_done, right[r].n - r_done);
    l_done += n;
    r_done += n;
    if (l_done == left[l].n) {
      l_done = 0;
      ++l;
    }
    if (r_done == right[r].n) {
      r_done = 0;
      ++r;
    }
  }
  // Two groups alternate in the lists: the other group comes next, if anything does.
  if (l + 1 >= left.size() || r + 1 >= right.size()) return false;
  at = {from(left[l], l_done), from(right[r], r_done)};
  return true;
}

Advice GroupOrder::describe(const Inversion& at, std::int32_t left, std::int32_t right) {
  const auto call = [](const Run& run) {
    std::string text =
        "call " + std::to_string(run.first) + " of group " + std::to_string(run.group);
    if (run.site.known())
      text += std::string(" (") + run.site.file + ":" + std::to_string(run.site.line) + ")";
    return text;
  };
  return {"A-group-order",
          "rank " + std::to_string(left) + " enters " + call(at.left) + " before " +
              call(at.right) + ", rank " + std::to_string(right) +
              " in the opposite order: with blocking calls, or one execution slot per rank, both "
              "deadlock (two-comm-cycle). Enter groups in the same order on every rank."};
}

std::vector<Advice> GroupOrder::advice() const {
  std::map<Pair, std::pair<std::int32_t, std::vector<Run>>> models;
  std::set<Pair> reported;
  std::vector<Advice> advice;
  for (const auto& [place, runs] : runs_.all()) {
    std::set<std::int32_t> groups;
    for (const Run& run : runs) groups.insert(run.group);
    for (auto low = groups.begin(); low != groups.end(); ++low) {
      for (auto high = std::next(low); high != groups.end(); ++high) {
        const Pair pair{*low, *high};
        std::vector<Run> own = merged(runs, pair);
        const auto [model, is_new] = models.try_emplace(pair, place.rank, own);
        Inversion at;
        if (is_new || reported.contains(pair) || !inverted(model->second.second, own, at)) continue;
        reported.insert(pair);
        advice.push_back(describe(at, model->second.first, place.rank));
      }
    }
  }
  return advice;
}

}  // namespace lockstep::laws
