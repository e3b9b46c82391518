#include "lockstep/trace/detail/open_calls.h"

#include <utility>

#include "lockstep/trace/detail/timeline_facts.h"

namespace lockstep::detail {

OpenCalls::Key OpenCalls::key_of(const CollectiveEvent& call) {
  const bool message =
      call.signature.op == CollectiveOp::kSend || call.signature.op == CollectiveOp::kRecv;
  const std::int32_t op = message ? static_cast<std::int32_t>(call.signature.op) : -1;
  return {call.group,
          call.seq,
          op,
          message ? call.signature.peer : -1,
          message ? call.signature.tag : 0};
}

void OpenCalls::post(const CollectiveEvent& call, std::int32_t rank, std::int64_t now) {
  const Signature& signature = call.signature;
  calls_[key_of(call)] = {
      .kind = TimelineEntry::Kind::kCall,
      .blocks = !signature.async,
      .rank = rank,
      .start = now,
      .end = now,
      .category = reduces_bucket(call) ? TimelineCategory::kBucket : TimelineCategory::kCollective,
      .name = std::string(name_of(signature.op)) + " #" + std::to_string(call.seq),
      .status = {},
      .facts = {number_fact("group", std::to_string(call.group)),
                number_fact("count", std::to_string(signature.count)),
                text_fact("dtype", name_of(signature.dtype)),
                text_fact("site", signature.site.text())}};
}

std::optional<TimelineEntry> OpenCalls::end(const CollectiveEvent& call, std::int64_t now) {
  const auto open = calls_.find(key_of(call));
  if (open == calls_.end()) return std::nullopt;
  TimelineEntry ended = std::move(open->second);
  calls_.erase(open);
  ended.end = now;
  ended.status = name_of(call.status);
  ended.failed = call.phase == CollectivePhase::kFailed;
  return ended;
}

std::vector<TimelineEntry> OpenCalls::abandon(std::int64_t now) {
  std::vector<TimelineEntry> left;
  for (auto& [key, open] : calls_) {
    open.end = now;
    open.status = "never completed";
    open.failed = true;
    left.push_back(std::move(open));
  }
  calls_.clear();
  return left;
}

}  // namespace lockstep::detail
