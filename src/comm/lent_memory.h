// A buffer that a collective works on without losing track of what it contains.
#pragma once

#include <cstdint>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/contents.h"

namespace lockstep {

/// What Memory::of hands out can change at any time, as far as is known. This can change until
/// the operation has been waited for; then it has the name of what the operation left, if its Work
/// has one and nothing has been written meanwhile.
class LentMemory {
 public:
  /// Requires: the memory is used for one operation of `group` and forgotten.
  Memory lend(const Tensor& tensor, ProcessGroup& group) {
    Contents* const contents = tensor.runtime().contents();
    const bool whole = tensor.n_bytes() == tensor.storage()->n_bytes();
    if (contents == nullptr || !whole || !group.names_results()) return Memory::of(tensor);
    loan_ = contents->fresh();
    return {tensor.storage()->lend(loan_), tensor.n_elems(), tensor.dtype(), tensor.device()};
  }

  /// Requires: `work` is the operation, and has been waited for without an error.
  void take_back(const Tensor& tensor, const Work& work) {
    if (loan_ != 0) tensor.storage()->take_back(loan_, work.result_content());
    loan_ = 0;
  }

 private:
  std::uint64_t loan_ = 0;
};

}  // namespace lockstep
