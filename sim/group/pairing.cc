#include "lockstep/sim/group/detail/pairing.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::sim {

namespace {

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

bool joins_reductions(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kBarrier;
}

}  // namespace

bool same_signature(const Signature& left, const Signature& right) {
  if (left.op != right.op) return false;
  if (left.op == CollectiveOp::kBarrier) return true;
  const bool counts = left.op == CollectiveOp::kAllToAll ||
                      (left.count == right.count && left.splits == right.splits);
  return counts && left.dtype == right.dtype && left.device == right.device &&
         (left.reduce == right.reduce || !reduces(left.op)) && left.root == right.root &&
         left.premul == right.premul && left.layout == right.layout;
}

std::optional<Difference> first_difference(const Signature& left, const Signature& right) {
  if (same_signature(left, right)) return std::nullopt;
  const auto text = [](std::string_view field, auto a, auto b) {
    return Difference{field, std::string(a), std::string(b)};
  };
  if (left.op != right.op) return text("op", name_of(left.op), name_of(right.op));
  if (left.dtype != right.dtype) return text("dtype", name_of(left.dtype), name_of(right.dtype));
  if (left.reduce != right.reduce && reduces(left.op)) {
    return text("reduce", name_of(left.reduce), name_of(right.reduce));
  }
  if (left.root != right.root) {
    return text("root", std::to_string(left.root), std::to_string(right.root));
  }
  if (left.count != right.count && left.op != CollectiveOp::kAllToAll) {
    return text("count", std::to_string(left.count), std::to_string(right.count));
  }
  if (left.splits != right.splits && left.op != CollectiveOp::kAllToAll) {
    return text("splits", hex64(left.splits), hex64(right.splits));
  }
  if (left.premul != right.premul) return text("premul", exact(left.premul), exact(right.premul));
  if (left.layout != right.layout) return text("layout", hex64(left.layout), hex64(right.layout));
  return text("device",
              left.device == Device::kCpu ? "cpu" : "cuda",
              right.device == Device::kCpu ? "cpu" : "cuda");
}

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

std::string describe(const CallSite& site) {
  std::string text;
  if (site.known()) {
    text += site.file;
    text += ':' + std::to_string(site.line);
  }
  if (site.scope != nullptr && *site.scope != '\0') {
    if (!text.empty()) text += ' ';
    text += '[';
    text += site.scope;
    text += ']';
  }
  return text;
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
