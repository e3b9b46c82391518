// The fields of a call's signature in which two calls that meet can differ.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// In the order in which they are compared.
enum class SignatureField : std::uint8_t {
  kNone,  ///< They match.
  kOp,
  kReduce,
  kDtype,
  kCount,
  kRoot,
  kPremul,
  kSplits,
  kLayout,
  kDevice,
};

/// As trace files call it; empty for kNone.
constexpr std::string_view name_of(SignatureField field) {
  constexpr std::array<std::string_view, 10> kNames = {
      "", "op", "reduce", "dtype", "count", "root", "premul", "splits", "layout", "device"};
  return kNames[static_cast<std::size_t>(field)];
}

inline bool reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

inline bool has_root(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kGather || op == CollectiveOp::kScatter;
}

/// As first_difference, of two calls of one operation that moves data.
inline SignatureField first_difference_of_data(const Signature& a, const Signature& b) {
  if (reduces(a.op) && a.reduce != b.reduce) return SignatureField::kReduce;
  if (a.dtype != b.dtype) return SignatureField::kDtype;
  const bool uneven = a.splits != 0 || b.splits != 0;
  if (a.op != CollectiveOp::kScatter && !uneven && a.count != b.count) {
    return SignatureField::kCount;
  }
  if (has_root(a.op) && a.root != b.root) return SignatureField::kRoot;
  if (reduces(a.op) && a.reduce == ReduceOp::kPremulSum && a.premul != b.premul) {
    return SignatureField::kPremul;
  }
  if (a.op != CollectiveOp::kAllToAll && a.splits != b.splits) return SignatureField::kSplits;
  if (a.layout != b.layout) return SignatureField::kLayout;
  return a.device != b.device ? SignatureField::kDevice : SignatureField::kNone;
}

/// The first field in which two calls at one place differ. Which fields matter depends on the
/// operation: only the root of a scatter has an input, uneven sizes are each rank's own business.
inline SignatureField first_difference(const Signature& a, const Signature& b) {
  if (a.op != b.op) return SignatureField::kOp;
  return a.op == CollectiveOp::kBarrier ? SignatureField::kNone : first_difference_of_data(a, b);
}

inline bool matches(const Signature& a, const Signature& b) {
  return first_difference(a, b) == SignatureField::kNone;
}

/// "all_reduce(f32[4], sum) at train.py:40".
inline std::string signature_text(const Signature& call) {
  std::string text(name_of(call.op));
  if (call.op != CollectiveOp::kBarrier) {
    text += "(" + std::string(name_of(call.dtype)) + "[" + std::to_string(call.count) + "]";
    if (reduces(call.op)) text += ", " + std::string(name_of(call.reduce));
    if (has_root(call.op)) text += ", root " + std::to_string(call.root);
    text += ")";
  }
  if (call.site.known()) text += " at " + call.site.text();
  return text;
}

}  // namespace lockstep::laws
