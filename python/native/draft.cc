#include "lockstep/python/native/draft.h"

#include "lockstep/tensor/digest.h"

namespace lockstep::python {

namespace {

/// Significant bits: an event of several dtypes names the coarsest.
int precision(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 53;
    case DType::kF32:
      return 24;
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    default:
      return 64;
  }
}

/// It is a tensor, not None.
void is_there(Draft& draft, std::size_t index) {
  draft.undefined[index / 8] =
      static_cast<std::uint8_t>(draft.undefined[index / 8] & ~(1U << (index % 8)));
}

}  // namespace

GradEvent Draft::event(GradPoint point, LayoutId layout) const {
  return {.point = point,
          .layout = layout,
          .digests = digests,
          .sketches = sketches,
          .n_elems = n_elems,
          .undefined = undefined,
          .dtype = dtype};
}

void Fingerprinter::clear(Draft& draft, std::size_t n, bool sketched) {
  waiting_.erase(&draft);
  draft.asked.assign(n, std::nullopt);
  draft.started = false;
  draft.dtype = DType::kF32;
  draft.digests.assign(n, 0);
  draft.sketches.assign(sketched ? n : 0, Sketch{});
  draft.n_elems.assign(n, 0);
  draft.undefined.assign((n + 7) / 8, 0);
  for (std::size_t i = 0; i < n; ++i) {
    draft.undefined[i / 8] = static_cast<std::uint8_t>(draft.undefined[i / 8] | (1U << (i % 8)));
  }
}

void Fingerprinter::set(Draft& draft, std::size_t index, const TensorView& view) {
  if (view.data == nullptr && view.n_elems == 0) return;
  if (!draft.started || precision(view.dtype) < precision(draft.dtype)) draft.dtype = view.dtype;
  draft.started = true;
  is_there(draft, index);
  draft.asked[index].reset();
  draft.n_elems[index] = view.n_elems;
  const bool sketched = !draft.sketches.empty() && is_floating(view.dtype);
  if (view.prints != nullptr) {
    prints_ = view.prints;
    draft.asked[index] = prints_->ask({view.data, view.n_elems, view.dtype, sketched}, view.where);
    waiting_.insert(&draft);
  } else if (sketched) {
    const TensorFingerprint print = fingerprint_of(view.data, view.n_elems, view.dtype, &signs_);
    draft.digests[index] = print.digest;
    draft.sketches[index] = print.sketch;
  } else {
    draft.digests[index] = sm64(view.data, view.n_elems, view.dtype);
  }
}

void Fingerprinter::copy(const Draft& from, Draft& to, std::size_t index) {
  to.started = true;
  to.dtype = from.dtype;
  to.asked[index] = from.asked[index];
  if (to.asked[index]) waiting_.insert(&to);
  to.digests[index] = from.digests[index];
  to.sketches[index] = from.sketches[index];
  to.n_elems[index] = from.n_elems[index];
  is_there(to, index);
}

void Fingerprinter::launch() {
  if (prints_ != nullptr) prints_->launch();
}

void Fingerprinter::settle(Draft& draft) {
  if (waiting_.erase(&draft) == 0) return;
  for (std::size_t i = 0; i < draft.asked.size(); ++i) {
    if (!draft.asked[i]) continue;
    const TensorFingerprint print = prints_->read(*draft.asked[i]);
    draft.digests[i] = print.digest;
    if (!draft.sketches.empty()) draft.sketches[i] = print.sketch;
    draft.asked[i].reset();
  }
  if (waiting_.empty()) prints_->forget();
}

void Fingerprinter::draw_up(Draft& draft, std::span<const TensorView> tensors, bool sketched) {
  clear(draft, tensors.size(), sketched);
  for (std::size_t i = 0; i < tensors.size(); ++i) set(draft, i, tensors[i]);
  if (waiting_.contains(&draft)) launch();
  settle(draft);
}

}  // namespace lockstep::python
