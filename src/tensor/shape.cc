#include "lockstep/tensor/shape.h"

#include <fmt/core.h>

#include "lockstep/base/text.h"

namespace lockstep {

std::string Shape::text() const { return fmt::format("[{}]", join(sizes())); }

std::string Shape::complaint_about(std::span<const std::int64_t> sizes) {
  return fmt::format(
      "[{}] is not a shape: it has at most {} sizes, none of them negative, and at most {} "
      "elements",
      join(sizes),
      kMaxDims,
      kMaxElems);
}

}  // namespace lockstep
