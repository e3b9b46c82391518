// What goes into a reduction of gradients and what comes out of it, until all its ranks have come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/contributions.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The batches that one rank's gradients of one reduction came from.
struct Batches {
  std::int32_t n_batches = 0;
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
  double denominator = 0.0;
  bool same_denominators = true;
  bool reduced = false;  ///< The next batch belongs to the next reduction.
  NameId declared = kNoName;
  std::vector<double> denominators;  // Of all of them, to compare ranks.

  friend bool operator==(const Batches&, const Batches&) = default;

  /// Whether they weigh as much.
  bool alike(const Batches& other) const {
    return denominators == other.denominators && n_samples == other.n_samples &&
           n_tokens == other.n_tokens;
  }

  void add(const BatchEvent& batch) {
    same_denominators = same_denominators && (n_batches == 0 || batch.denominator == denominator);
    ++n_batches;
    n_samples += batch.n_samples;
    n_tokens += batch.n_tokens;
    denominator = batch.denominator;
    declared = batch.declared;
    denominators.push_back(batch.denominator);
  }
};

struct Local {
  std::int32_t rank = 0;
  std::size_t batches = 0;       ///< Which of its reduction's.
  bool adds_to_earlier = false;  ///< .grad held an earlier reduction of the same step.
  std::size_t place = 0;         ///< Among those of its reduction, in order of arrival.
};

/// What one rank's gradient was added up from, where that took more than one backward.
struct MicroSteps {
  std::int32_t rank = 0;
  std::vector<KeptGradients> added;
};

struct Published {
  std::vector<std::uint64_t> digests;
  std::vector<Sketch> sketches;
  std::vector<std::uint8_t> undefined;
  std::vector<Rank> ranks;
};

/// One reduction, while its ranks arrive.
struct OpenReduction {
  std::vector<Local> locals;
  std::vector<MicroSteps> micro;  // Of some of them.
  std::vector<Batches> batches;   // Equal neighbours only once.
  // Of all locals, one after the other: a warm reduction allocates nothing.
  std::vector<Sketch> sketches;
  std::vector<std::uint8_t> undefined;
  std::size_t n_tensors = 0;         ///< Sketches of one local.
  std::size_t n_bytes = 0;           ///< Bytes of `undefined` of one local.
  std::vector<Published> published;  // Distinct ones: one in healthy runs.
  std::int32_t n_published = 0;
  std::vector<std::int64_t> n_elems;
  DType dtype = DType::kF32;
  std::int32_t opt = 0;  ///< On the lowest rank.
  std::int32_t opt_of = std::numeric_limits<std::int32_t>::max();
  bool sketched = true;

  /// `local`: without its place.
  void add(const GradEvent& grad, const Local& local) {
    add_shape(grad);
    add_local(local);
    sketches.insert(sketches.end(), grad.sketches.begin(), grad.sketches.end());
    undefined.insert(undefined.end(), grad.undefined.begin(), grad.undefined.end());
  }

  /// What all ranks put in. `first`: what is theirs as well, but for the rank and the place.
  /// Requires: gradients of one shape.
  void add_all(const CohortEvent& event, const Local& first) {
    const auto& grad = std::get<GradEvent>(event.first->body);
    add_shape(grad);
    for (Local local = first; local.rank < event.n_ranks(); ++local.rank) {
      add_local(local);
      undefined.insert(undefined.end(), grad.undefined.begin(), grad.undefined.end());
      if (!event.equal()) continue;
      sketches.insert(sketches.end(), grad.sketches.begin(), grad.sketches.end());
    }
    if (event.equal()) return;
    const std::span<const Sketch> rows = event.rows->sketches();
    sketches.insert(sketches.end(), rows.begin(), rows.end());
  }

  /// What a rank put in for tensor i; null: nothing.
  const Sketch* sketch(const Local& local, std::size_t i) const {
    const bool none = i / 8 < n_bytes && (undefined[local.place * n_bytes + i / 8] >> (i % 8) & 1U);
    return none ? nullptr : &sketches[local.place * n_tensors + i];
  }

  const Batches& batches_of(const Local& local) const { return batches[local.batches]; }

  void add_local(const Local& local) {
    locals.push_back(local);
    locals.back().place = locals.size() - 1;
  }

  void add_shape(const GradEvent& grad) {
    sketched = sketched && grad.sketches.size() == grad.digests.size();
    n_tensors = grad.sketches.size();
    n_bytes = grad.undefined.size();
    if (n_elems.empty()) n_elems.assign(grad.n_elems.begin(), grad.n_elems.end());
    for (std::size_t i = 0; i < grad.n_elems.size() && i < n_elems.size(); ++i) {
      n_elems[i] = std::max(n_elems[i], grad.n_elems[i]);
    }
    dtype = grad.dtype;
  }

  void restart() {
    locals.clear();
    micro.clear();
    batches.clear();
    sketches.clear();
    undefined.clear();
    published.clear();
    n_published = 0;
    n_elems.clear();
    opt_of = std::numeric_limits<std::int32_t>::max();
    sketched = true;
  }
};

}  // namespace lockstep::laws
