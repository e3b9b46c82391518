// A copy of the gradients that ranks in step recorded at one place, for laws that need them later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "lockstep/trace/cohort.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// One row for all ranks where they recorded the same, else one per rank. Keeps its capacity.
class GradientRows {
 public:
  /// Whether an event can be kept.
  static bool takes(const CohortEvent& event) {
    return event.similarity <= Similarity::kSameShape &&
           std::holds_alternative<GradEvent>(event.first->body);
  }

  /// Requires: takes(event).
  void keep(const CohortEvent& event) {
    keep_digests(event);
    const auto& first = std::get<GradEvent>(event.first->body);
    n_sketches_ = first.sketches.size();
    assign(sketches_, of_each_ ? event.rows->sketches() : first.sketches);
    assign(n_elems_, first.n_elems);
  }

  /// Without sketches and sizes. Requires: takes(event).
  void keep_digests(const CohortEvent& event) {
    const auto& first = std::get<GradEvent>(event.first->body);
    of_each_ = !event.equal();
    n_tensors_ = first.digests.size();
    n_sketches_ = 0;
    assign(digests_, of_each_ ? event.rows->digests() : first.digests);
    assign(undefined_, first.undefined);
    n_elems_.clear();
  }

  /// `shape` with the lists of this rank, valid until the next keep().
  GradEvent of(std::int32_t rank, const GradEvent& shape) const {
    const auto row = static_cast<std::size_t>(of_each_ ? rank : 0);
    GradEvent own = shape;
    own.digests = std::span(digests_).subspan(row * n_tensors_, n_tensors_);
    own.sketches = std::span(sketches_).subspan(row * n_sketches_, n_sketches_);
    own.n_elems = n_elems_;
    own.undefined = undefined_;
    return own;
  }

  /// Whether each rank's gradients have the digests of those that were kept. Requires: takes(event).
  bool has_digests_of(const CohortEvent& event) const {
    const auto& first = std::get<GradEvent>(event.first->body);
    if (!std::ranges::equal(first.undefined, undefined_)) return false;
    if (event.equal() == of_each_) return has_digests_of_each(event);
    return std::ranges::equal(of_each_ ? event.rows->digests() : first.digests, digests_);
  }

 private:
  template <typename T>
  static void assign(std::vector<T>& to, std::span<const T> from) {
    to.assign(from.begin(), from.end());
  }

  bool has_digests_of_each(const CohortEvent& event) const {
    for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) {
      const EventBody body = event.body_of(rank);
      const auto& own = std::get<GradEvent>(body);
      if (!std::ranges::equal(own.digests, of(rank, own).digests)) return false;
    }
    return true;
  }

  bool of_each_ = false;
  std::size_t n_tensors_ = 0;
  std::size_t n_sketches_ = 0;
  std::vector<std::uint64_t> digests_;
  std::vector<Sketch> sketches_;
  std::vector<std::uint8_t> undefined_;
  std::vector<std::int64_t> n_elems_;
};

}  // namespace lockstep::laws
