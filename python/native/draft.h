// What an event will say of a list of tensors, while it is drawn up: digests, sketches, counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lockstep/gpu/fingerprint/device_fingerprints.h"
#include "lockstep/tensor/sketch.h"
#include "lockstep/trace/event.h"

namespace lockstep::python {

/// A tensor's elements, contiguous; no data = no tensor (a gradient that is None).
struct TensorView {
  const void* data = nullptr;
  std::int64_t n_elems = 0;
  DType dtype = DType::kF32;
  /// Computes its fingerprint where it lies. Null: it lies in the host's memory.
  fingerprint::DeviceFingerprints* prints = nullptr;
  fingerprint::DeviceFingerprints::Where where = {};
};

/// One row per tensor.
struct Draft {
  bool started = false;
  DType dtype = DType::kF32;  ///< The coarsest of them.
  std::vector<std::uint64_t> digests;
  std::vector<Sketch> sketches;  ///< Empty, or of all.
  std::vector<std::int64_t> n_elems;
  std::vector<std::uint8_t> undefined;
  /// What a device has been asked for and has not answered.
  std::vector<std::optional<fingerprint::DeviceFingerprints::Ticket>> asked;

  GradEvent event(GradPoint point, LayoutId layout) const;
};

/// Takes fingerprints, each where its tensor lies: on the host at once, on a device with the answer later.
class Fingerprinter {
 public:
  /// An empty draft of `n` tensors. What a device was asked for is given up.
  void clear(Draft& draft, std::size_t n, bool sketched);
  /// Requires: index within the draft. A device reads the tensor as it is at launch().
  void set(Draft& draft, std::size_t index, const TensorView& view);
  /// The same of a tensor that has been set in another draft.
  void copy(const Draft& from, Draft& to, std::size_t index);
  void launch();
  /// Fills in what devices were asked for.
  void settle(Draft& draft);
  /// A draft of all these tensors, settled.
  void draw_up(Draft& draft, std::span<const TensorView> tensors, bool sketched);

 private:
  SketchSigns signs_;
  fingerprint::DeviceFingerprints* prints_ = nullptr;  // Of the last view that had any.
  std::set<const Draft*> waiting_;                     // Those with an open question.
};

}  // namespace lockstep::python
