#include "lockstep/collectives/monitored_barrier.h"

#include <fmt/core.h>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep {

namespace {

// No user's message has it.
constexpr std::int32_t kTag = std::numeric_limits<std::int32_t>::min();
constexpr Memory kNothing{};
constexpr Duration kGroupTimeout{std::int64_t{30} * 60 * 1'000'000'000};  // c10d's for Gloo.

std::string milliseconds(Duration span) { return std::to_string(span.ns / 1'000'000) + " ms"; }

std::string listed(std::span<const std::int32_t> ranks) {
  std::string text;
  for (const std::int32_t rank : ranks) {
    if (!text.empty()) text += ", ";
    text += std::to_string(rank);
  }
  return text;
}

std::string original(const std::string& detail, CommStatus status) {
  return "\n Original exception: \n" + (detail.empty() ? std::string(name_of(status)) : detail);
}

class Barrier {
 public:
  Barrier(ProcessGroup& group, Duration timeout, const OpOptions& options)
      : group_(&group), timeout_(timeout), options_(options) {
    signature_.site = options.site;
  }

  void follow() {
    // Rank 0 may need a timeout for each missing rank before it comes to this one.
    const Duration patience = options_.timeout.ns > 0 ? options_.timeout : kGroupTimeout;
    const Work sent = group_->send(kNothing, 0, kTag, within(patience));
    const Work answered = group_->recv(kNothing, 0, kTag, within(patience));
    for (const Work& work : {sent, answered}) {
      const CommStatus status = work.wait();
      if (status != CommStatus::kOk) refer_to_rank_zero(work.detail(), status);
    }
  }

  void lead(bool wait_all_ranks) {
    std::vector<std::int32_t> came;
    std::vector<std::int32_t> missing;
    const VirtualTime start = group_->runtime().host().now();
    for (std::int32_t rank = 1; rank < group_->size(); ++rank) {
      const Duration spent = group_->runtime().host().now() - start;
      const Duration left = wait_all_ranks ? timeout_ : Duration{timeout_.ns - spent.ns};
      if (left.ns <= 0) time_out(came, rank);
      const Work work = group_->recv(kNothing, rank, kTag, within(left));
      const CommStatus status = work.wait();
      if (status == CommStatus::kOk) {
        came.push_back(rank);
      } else if (wait_all_ranks) {
        missing.push_back(rank);
      } else {
        fail("[Rank 0]: Rank " + std::to_string(rank) + passing() + original(work.detail(), status),
             {rank});
      }
    }
    if (!missing.empty()) fail("[Rank 0]: Ranks " + listed(missing) + passing(), missing);
    answer();
  }

 private:
  OpOptions within(Duration span) const {
    OpOptions options = options_;
    options.timeout = span;
    return options;
  }

  std::string passing() const {
    return " failed to pass monitoredBarrier in " + milliseconds(timeout_);
  }

  [[noreturn]] void fail(std::string text, std::vector<std::int32_t> missing) const {
    throw MonitoredBarrierError(signature_, std::move(text), std::move(missing));
  }

  [[noreturn]] void refer_to_rank_zero(const std::string& detail, CommStatus status) const {
    fail("Rank " + std::to_string(group_->rank()) +
             " successfully reached monitoredBarrier, but received errors while waiting for "
             "send/recv from rank 0. Please check rank 0 logs for faulty rank." +
             original(detail, status),
         {});
  }

  [[noreturn]] void time_out(std::span<const std::int32_t> came, std::int32_t first_missing) const {
    std::string text =
        "Rank 0 timed out in monitoredBarrier after " + milliseconds(timeout_) + ".\n";
    text += came.empty() ? std::string("No ranks successfully processed in monitoredBarrier.")
                         : "Successfully processed ranks: " + listed(came);
    fail(std::move(text), {first_missing});
  }

  void answer() {
    std::vector<Work> works;
    for (std::int32_t rank = 1; rank < group_->size(); ++rank) {
      works.push_back(group_->send(kNothing, rank, kTag, within(timeout_)));
    }
    for (const Work& work : works) {
      const CommStatus status = work.wait();
      if (status != CommStatus::kOk) refer_to_rank_zero(work.detail(), status);
    }
  }

  ProcessGroup* group_;
  Duration timeout_;
  OpOptions options_;
  Signature signature_;
};

}  // namespace

void monitored_barrier(ProcessGroup& group,
                       Duration timeout,
                       bool wait_all_ranks,
                       const OpOptions& options) {
  LOCKSTEP_CHECK(
      timeout.ns > 0,
      fmt::format("a monitored barrier needs a positive timeout, not {} ns", timeout.ns));
  Barrier barrier(group, timeout, options);
  if (group.rank() == 0) {
    barrier.lead(wait_all_ranks);
  } else {
    barrier.follow();
  }
}

}  // namespace lockstep
