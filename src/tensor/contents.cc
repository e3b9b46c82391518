#include "lockstep/tensor/contents.h"

#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

namespace {

constexpr std::size_t kEntryBits = 10;     // The contents of a step.
constexpr std::int64_t kFewestBytes = 64;  // Less is read as fast as it is looked up.

TensorFingerprint measure(const Tensor& tensor, const TensorFingerprint* twin) {
  Kernels& kernels = tensor.runtime().kernels();
  if (twin == nullptr) return kernels.fingerprint(tensor);
  // A sketch costs more than the digest that proves it.
  const std::uint64_t digest = kernels.digest(tensor, 0);
  return {digest, digest == twin->digest ? twin->sketch : kernels.sketch(tensor)};
}

}  // namespace

Contents::Contents() : known_(std::size_t{1} << kEntryBits) {}

ContentName Contents::name_of(const Tensor& tensor) {
  if (closed_) return {};
  Storage& storage = *tensor.storage();
  if (storage.content() == 0) storage.set_content(fresh(), 0);
  if (!Storage::is_named(storage.content())) return {};
  return {.storage = storage.content(),
          .offset = storage.content_offset() + tensor.offset_bytes(),
          .n_elems = tensor.n_elems(),
          .dtype = tensor.dtype()};
}

/// Where the fingerprint of this content belongs, or null if its changes cannot be noticed. A place
/// that held a different one comes back without a digest.
Contents::CacheEntry* Contents::entry_of(const Tensor& tensor) {
  if (tensor.n_bytes() < kFewestBytes) return nullptr;
  const ContentName name = name_of(tensor);
  if (!name.is_known()) return nullptr;
  const std::uint64_t mixed = name.storage * kMixFirst +
                              static_cast<std::uint64_t>(name.offset) * kMixSecond +
                              static_cast<std::uint64_t>(name.n_elems);
  CacheEntry& entry = known_[(mixed * kGolden64) >> (64U - kEntryBits)];
  if (entry.content != name) entry = {.content = name, .print = {}};
  return &entry;
}

std::uint64_t Contents::digest(const Tensor& tensor) {
  CacheEntry* const entry = entry_of(tensor);
  if (entry == nullptr) return tensor.runtime().kernels().digest(tensor, 0);
  if (entry->digested) {
    ++n_spared_;
    return entry->print.digest;
  }
  entry->print.digest = tensor.runtime().kernels().digest(tensor, 0);
  entry->digested = true;
  return entry->print.digest;
}

TensorFingerprint Contents::fingerprint(const Tensor& tensor, const TensorFingerprint* twin) {
  CacheEntry* const entry = entry_of(tensor);
  if (entry == nullptr) return measure(tensor, twin);
  if (!entry->digested) {
    entry->print = measure(tensor, twin);
    entry->digested = true;
  } else if (!entry->sketched) {
    const bool is_twin = twin != nullptr && twin->digest == entry->print.digest;
    entry->print.sketch = is_twin ? twin->sketch : tensor.runtime().kernels().sketch(tensor);
  } else {
    ++n_spared_;
  }
  entry->sketched = true;
  return entry->print;
}

ContentName content_name(const Tensor& tensor) {
  Contents* const contents = tensor.runtime().contents();
  return contents != nullptr ? contents->name_of(tensor) : ContentName{};
}

std::uint64_t known_digest(const Tensor& tensor) {
  Contents* const contents = tensor.runtime().contents();
  return contents != nullptr ? contents->digest(tensor)
                             : tensor.runtime().kernels().digest(tensor, 0);
}

TensorFingerprint known_fingerprint(const Tensor& tensor, const TensorFingerprint* twin) {
  Contents* const contents = tensor.runtime().contents();
  return contents != nullptr ? contents->fingerprint(tensor, twin) : measure(tensor, twin);
}

}  // namespace lockstep
