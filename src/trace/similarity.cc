#include "lockstep/trace/similarity.h"

#include <type_traits>
#include <variant>

#include "lockstep/trace/detail/twin_fields.h"

namespace lockstep {

Similarity similarity_of(const EventBody& left, const EventBody& right) {
  if (left.index() != right.index()) return Similarity::kUnrelated;
  return std::visit(
      [&right](const auto& body) {
        return detail::similarity_of(body,
                                     *std::get_if<std::remove_cvref_t<decltype(body)>>(&right));
      },
      left);
}

}  // namespace lockstep
