#include "lockstep/trace/similarity.h"

#include "lockstep/trace/detail/body_kind.h"

namespace lockstep {

Similarity similarity_of(const EventBody& left, const EventBody& right) {
  if (left.index() != right.index()) return Similarity::kUnrelated;
  const auto body = detail::BodyRef::of(left);
  return body.kind->similarity(body.body, detail::BodyRef::of(right).body);
}

}  // namespace lockstep
