#include "lockstep/comm/signature.h"

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
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
  const auto text = [](std::string_view field, const auto& a, const auto& b) {
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

}  // namespace lockstep
