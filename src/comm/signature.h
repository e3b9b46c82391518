// What the members of a group must agree on, compared field by field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/trace/event.h"

namespace lockstep {

/// One field in which two signatures differ.
struct Difference {
  std::string_view field;
  std::string left;
  std::string right;
};

/// The first field that this operation compares and that differs. Call site and `async` are
/// evidence, never compared; the counts of all_to_all differ between healthy ranks.
std::optional<Difference> first_difference(const Signature& left, const Signature& right);
bool same_signature(const Signature& left, const Signature& right);

/// "train.py:40 [ddp.backward]", or empty.
std::string describe(const CallSite& site);

}  // namespace lockstep
