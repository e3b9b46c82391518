#include "lockstep/kernels/detail/elements.h"

#include <fmt/core.h>

namespace lockstep::detail {

std::string unequal_counts(const Tensor& out, const Tensor& a) {
  return fmt::format("{} and {} have {} and {} elements: element-wise operands have equally many",
                     out.text(),
                     a.text(),
                     out.n_elems(),
                     a.n_elems());
}

}  // namespace lockstep::detail
