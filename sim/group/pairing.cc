#include "lockstep/sim/group/detail/pairing.h"

namespace lockstep::sim {

namespace {

bool joins_reductions(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kBarrier;
}

}  // namespace

std::optional<Difference> differing_splits(std::span<SimWork* const> works) {
  for (std::size_t from = 0; from < works.size(); ++from) {
    for (std::size_t to = 0; to < works.size(); ++to) {
      const std::int64_t sent = works[from]->inputs()[to].count;
      const std::int64_t expected = works[to]->outputs()[from].count;
      if (sent == expected) continue;
      const std::string pair = " (rank " + std::to_string(to_int(works[from]->rank())) +
                               " to rank " + std::to_string(to_int(works[to]->rank())) + ")";
      return Difference{"splits",
                        "sends " + std::to_string(sent) + pair,
                        "receives " + std::to_string(expected) + pair};
    }
  }
  return std::nullopt;
}

std::string describe(const Difference& difference, const SimWork& left, const SimWork& right) {
  const auto side = [](const SimWork& work, const std::string& value) {
    std::string text = "rank " + std::to_string(to_int(work.rank())) + " " + value;
    const std::string site = describe(work.signature().site);
    return site.empty() ? text : text + " (" + site + ")";
  };
  return std::string(difference.field) + " differs at #" + std::to_string(left.seq()) + ": " +
         side(left, difference.left) + ", " + side(right, difference.right);
}

PairingResult pair_by_sequence(std::span<SimWork* const> works) {
  const Signature& first = works.front()->signature();
  bool all_same = true;
  bool all_join = true;
  bool all_broadcast = true;
  for (const SimWork* work : works) {
    const Signature& signature = work->signature();
    all_same = all_same && same_signature(first, signature);
    all_join = all_join && joins_reductions(signature.op);
    all_broadcast =
        all_broadcast && signature.op == CollectiveOp::kBroadcast && signature.root == first.root;
  }
  if (all_same) {
    const bool crossed = first.op == CollectiveOp::kAllToAll && differing_splits(works);
    return crossed ? PairingResult::kHang : PairingResult::kMatched;
  }
  return all_join || all_broadcast ? PairingResult::kGarbage : PairingResult::kHang;
}

}  // namespace lockstep::sim
