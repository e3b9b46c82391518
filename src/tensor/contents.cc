#include "lockstep/tensor/contents.h"

#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

namespace {

constexpr std::size_t kPlaceBits = 10;     // The contents of a step.
constexpr std::int64_t kFewestBytes = 64;  // Less is read as fast as it is looked up.

Imprint look(const Tensor& tensor, const Imprint* twin) {
  Kernels& kernels = tensor.runtime().kernels();
  if (twin == nullptr) return kernels.imprint(tensor);
  // A sketch costs more than the digest that proves it.
  const std::uint64_t digest = kernels.digest(tensor, 0);
  return {digest, digest == twin->digest ? twin->sketch : kernels.sketch(tensor)};
}

}  // namespace

Contents::Contents() : known_(std::size_t{1} << kPlaceBits) {}

/// Where the imprint of this content belongs, or null if nobody can know when it changes. A place
/// that held another one comes back without a digest: its n_elems is negative.
Contents::Place* Contents::place_of(const Tensor& tensor) {
  if (closed_ || tensor.n_bytes() < kFewestBytes) return nullptr;
  Storage& storage = *tensor.storage();
  if (storage.content() == 0) storage.set_content(fresh(), 0);
  const std::uint64_t content = storage.content();
  if (!Storage::is_named(content)) return nullptr;
  const std::int64_t offset = storage.content_offset() + tensor.offset_bytes();
  const std::uint64_t mixed = content * kMixFirst +
                              static_cast<std::uint64_t>(offset) * kMixSecond +
                              static_cast<std::uint64_t>(tensor.n_elems());
  Place& place = known_[(mixed * kGolden64) >> (64U - kPlaceBits)];
  const bool same = place.content == content && place.offset == offset &&
                    place.n_elems == tensor.n_elems() && place.dtype == tensor.dtype();
  if (!same) {
    place = {
        .content = content, .offset = offset, .n_elems = -1, .dtype = tensor.dtype(), .print = {}};
  }
  return &place;
}

std::uint64_t Contents::digest(const Tensor& tensor) {
  Place* const place = place_of(tensor);
  if (place == nullptr) return tensor.runtime().kernels().digest(tensor, 0);
  if (place->n_elems >= 0) {
    ++n_spared_;
    return place->print.digest;
  }
  place->print.digest = tensor.runtime().kernels().digest(tensor, 0);
  place->n_elems = tensor.n_elems();
  return place->print.digest;
}

Imprint Contents::imprint(const Tensor& tensor, const Imprint* twin) {
  Place* const place = place_of(tensor);
  if (place == nullptr) return look(tensor, twin);
  if (place->n_elems < 0) {
    place->print = look(tensor, twin);
    place->n_elems = tensor.n_elems();
  } else if (!place->sketched) {
    const bool told = twin != nullptr && twin->digest == place->print.digest;
    place->print.sketch = told ? twin->sketch : tensor.runtime().kernels().sketch(tensor);
  } else {
    ++n_spared_;
  }
  place->sketched = true;
  return place->print;
}

std::uint64_t known_digest(const Tensor& tensor) {
  Contents* const contents = tensor.runtime().contents();
  return contents != nullptr ? contents->digest(tensor)
                             : tensor.runtime().kernels().digest(tensor, 0);
}

Imprint known_imprint(const Tensor& tensor, const Imprint* twin) {
  Contents* const contents = tensor.runtime().contents();
  return contents != nullptr ? contents->imprint(tensor, twin) : look(tensor, twin);
}

}  // namespace lockstep
