// What tensors of a run have been found to contain, so that no bytes are read twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Which bytes a tensor has, as far as that can be known without reading them: equal ones stand for
/// equal bytes of one type.
struct ContentName {
  std::uint64_t storage = 0;  ///< Of a storage that has held these bytes; 0 = not known.
  std::int64_t offset = 0;    ///< Where in it, in bytes.
  std::int64_t n_elems = 0;
  DType dtype = DType::kF32;

  bool is_known() const { return storage != 0; }

  friend bool operator==(const ContentName&, const ContentName&) = default;
};

/// Names for the contents of storages, and the fingerprints of what has been named.
///
/// A name stands for bytes. It is given to a storage when that is first read, goes along when a
/// copy fills another storage, and is given to all members of a collective that leaves them the
/// same bytes. Every operation that writes other bytes to a storage takes the name away, and a
/// storage whose memory can change unseen never has one (Storage::content). So an equal name proves
/// equal bytes; without one the bytes are read.
///
/// One object serves all ranks of a world.
/// Requires: one thread.
class Contents {
 public:
  Contents();

  /// A name that nothing else has.
  std::uint64_t fresh() { return ++n_names_; }

  /// From now on nothing is trusted: memory in which a transfer may still write was given back.
  void close() { closed_ = true; }

  void open() { closed_ = false; }

  bool closed() const { return closed_; }

  ContentName name_of(const Tensor& tensor);

  /// Whether the tensor is known to contain what has this name. False: it may or may not.
  bool contains(const Tensor& tensor, const ContentName& name) const {
    const Storage& storage = *tensor.storage();
    return name.is_known() && storage.content() == name.storage &&
           storage.content_offset() + tensor.offset_bytes() == name.offset &&
           tensor.n_elems() == name.n_elems && tensor.dtype() == name.dtype && !closed_;
  }

  std::uint64_t digest(const Tensor& tensor);
  /// `twin`: what it may well be, if a digest says so; null: no idea.
  TensorFingerprint fingerprint(const Tensor& tensor, const TensorFingerprint* twin);

  /// A caller has seen by their names that it need not read this many tensors.
  void note_spared(std::uint64_t n_tensors) { n_spared_ += n_tensors; }

  /// Times that bytes did not have to be read.
  std::uint64_t n_spared() const { return n_spared_; }

 private:
  struct CacheEntry {
    ContentName content;
    bool digested = false;
    bool sketched = false;
    TensorFingerprint print;
  };

  CacheEntry* entry_of(const Tensor& tensor);

  std::vector<CacheEntry> known_;  // What falls on a taken place replaces it.
  std::uint64_t n_names_ = 0;
  std::uint64_t n_spared_ = 0;
  bool closed_ = false;
};

/// The name of what the tensor contains; not known where nothing keeps names.
ContentName content_name(const Tensor& tensor);
/// The tensor's digest (base 0), read or remembered.
std::uint64_t known_digest(const Tensor& tensor);
/// The same and its sketch. `twin` as above.
TensorFingerprint known_fingerprint(const Tensor& tensor, const TensorFingerprint* twin = nullptr);

}  // namespace lockstep
