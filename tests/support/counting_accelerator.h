// An accelerator of host memory that counts what is asked of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/tensor/accelerator.h"

namespace lockstep::testing {

/// Blocks are remembered with their sizes: a release of something else fails (`n_wrong_releases`).
class CountingAccelerator final : public Accelerator {
 public:
  ~CountingAccelerator() override {
    for (const auto& [block, bytes] : blocks) ::operator delete (block, std::align_val_t{64});
  }

  Kernels& kernels() override { return *kernels_; }

  void* allocate(std::size_t n_bytes) override {
    void* const block = ::operator new (n_bytes, std::align_val_t{64});
    blocks[block] = n_bytes;
    return block;
  }

  void release(void* data, std::size_t n_bytes) override {
    const auto found = blocks.find(data);
    if (found == blocks.end() || found->second != n_bytes) {
      ++n_wrong_releases;
      return;
    }
    blocks.erase(found);
    ::operator delete (data, std::align_val_t{64});
  }

  /// As a kernel does that has queued something.
  void queue_something() { busy_ = true; }

  void settle() override {
    if (busy_) ++n_waits;
    busy_ = false;
  }

  std::map<void*, std::size_t> blocks;
  std::int64_t n_wrong_releases = 0;
  std::int64_t n_waits = 0;

 private:
  bool busy_ = false;
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels();
};

}  // namespace lockstep::testing
