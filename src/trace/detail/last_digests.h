// What was last recorded of a wrapper's tensors, so that what has not changed is not looked at again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/names.h"
#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/trace/event.h"

namespace lockstep::detail {

/// The last digest by name. Names that come in the order in which they first came are found at once.
class LastDigests {
 public:
  /// `tensors`: what the digests are of, where there are tensors here; none is null.
  /// Requires: one digest for each name, and one tensor or none at all.
  void keep(std::span<const NameId> names,
            std::span<const std::uint64_t> digests,
            std::span<const Tensor* const> tensors = {}) {
    Contents* contents = nullptr;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Kept& kept = at(names[i], i);
      kept.digest = digests[i];
      const bool defined = !tensors.empty() && tensors[i]->defined();
      if (defined && contents == nullptr) contents = tensors[i]->runtime().contents();
      kept.content =
          contents != nullptr && defined ? contents->name_of(*tensors[i]) : ContentName{};
    }
  }

  /// Where the i-th of `names` has another digest than was last kept, or was never kept.
  bool differs(std::span<const NameId> names, std::size_t i, std::uint64_t digest) const {
    const std::size_t place = place_of(names[i], i);
    return place == kept_.size() || kept_[place].digest != digest;
  }

  /// Whether all of these tensors are known to contain what was last kept, in the order in which it was.
  /// False: they may or may not.
  bool contains_all(std::span<const NameId> names, std::span<const Tensor* const> tensors) const {
    if (tensors.empty() || kept_.size() < tensors.size()) return tensors.empty();
    const Contents* const contents = tensors.front()->runtime().contents();
    if (contents == nullptr) return false;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool same =
          kept_[i].name == names[i] && contents->contains(*tensors[i], kept_[i].content);
      if (!same) return false;
    }
    return true;
  }

  /// Whether the i-th of `names` is known to contain what was last kept. False: it may or may not.
  bool contains(std::span<const NameId> names, std::size_t i, const Tensor& tensor) const {
    const std::size_t place = place_of(names[i], i);
    const Contents* const contents = tensor.runtime().contents();
    return contents != nullptr && place < kept_.size() &&
           contents->contains(tensor, kept_[place].content);
  }

 private:
  struct Kept {
    NameId name = kNoName;
    std::uint64_t digest = 0;
    ContentName content;
  };

  Kept& at(NameId name, std::size_t likely) {
    const std::size_t place = place_of(name, likely);
    if (place == kept_.size()) kept_.emplace_back().name = name;
    return kept_[place];
  }

  std::size_t place_of(NameId name, std::size_t likely) const {
    if (likely < kept_.size() && kept_[likely].name == name) return likely;
    std::size_t place = 0;
    while (place < kept_.size() && kept_[place].name != name) ++place;
    return place;
  }

  std::vector<Kept> kept_;
};

/// Digests and sketches of a list of gradients, and what they were taken of. Keeps its capacity.
class GradPrints {
 public:
  /// What is read: the names, whether sketches are, and the part of large tensors whose turn it is.
  struct Scope {
    LayoutId layout = kNoLayout;
    bool sketched = false;
    std::int32_t turn = 0;

    friend bool operator==(const Scope&, const Scope&) = default;
  };

  /// Lists that are the same on all ranks where they have the same number.
  static GradPrints of_all_ranks() {
    GradPrints prints;
    prints.numbered_ = true;
    return prints;
  }

  /// Begins a list of `n` gradients, each undefined until it is set.
  void start(const Scope& scope, std::size_t n) {
    scope_ = scope;
    ++number_;
    digests_.assign(n, 0);
    sketches_.assign(scope.sketched ? n : 0, Sketch{});
    n_elems_.assign(n, 0);
    undefined_.assign((n + 7) / 8, 0);
    for (std::size_t i = 0; i < n; ++i) undefined_[i / 8] |= bit_of(i);
    contents_.assign(n, ContentName{});
    dtype_ = DType::kF32;
  }

  /// `part` of `grad` was read.
  void set(std::size_t i, const Tensor& grad, const Tensor& part, const TensorFingerprint& print) {
    undefined_[i / 8] &= static_cast<std::uint8_t>(~bit_of(i));
    digests_[i] = print.digest;
    if (scope_.sketched) sketches_[i] = print.sketch;
    n_elems_[i] = part.n_elems();
    dtype_ = part.dtype();
    contents_[i] = content_name(grad);
  }

  /// Whether these gradients are known to contain what was read, which spares a caller to read them. False:
  /// they may or may not.
  bool describes(const Scope& scope, std::span<const Tensor* const> grads) const {
    if (scope.layout == kNoLayout || scope != scope_ || grads.size() != contents_.size())
      return false;
    Contents* contents = nullptr;
    std::uint64_t n_defined = 0;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const bool was_defined = (undefined_[i / 8] & bit_of(i)) == 0;
      if (grads[i]->defined() != was_defined) return false;
      if (!was_defined) continue;
      if (contents == nullptr) contents = grads[i]->runtime().contents();
      if (contents == nullptr || !contents->contains(*grads[i], contents_[i])) return false;
      ++n_defined;
    }
    if (contents != nullptr) contents->note_spared(n_defined);
    return true;
  }

  /// From now on it describes nothing.
  void forget() { scope_.layout = kNoLayout; }

  /// Valid until the next start().
  GradEvent event(GradPoint point) const {
    return {.point = point,
            .layout = scope_.layout,
            .digests = digests_,
            .sketches = sketches_,
            .n_elems = n_elems_,
            .undefined = undefined_,
            .dtype = dtype_,
            .number = numbered_ ? number_ : 0};
  }

 private:
  static std::uint8_t bit_of(std::size_t i) { return static_cast<std::uint8_t>(1U << (i % 8)); }

  Scope scope_;
  bool numbered_ = false;
  std::uint64_t number_ = 0;  // Another one for each list that was begun here, from 1.
  std::vector<std::uint64_t> digests_;
  std::vector<Sketch> sketches_;
  std::vector<std::int64_t> n_elems_;
  std::vector<std::uint8_t> undefined_;
  std::vector<ContentName> contents_;
  DType dtype_ = DType::kF32;
};

}  // namespace lockstep::detail
