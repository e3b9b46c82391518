// Rules about words that judge: causes, outcomes and reasons are enumerators, and no law reads a
// text that was written for people.
#pragma once

#include <string_view>
#include <vector>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// In src/laws: no search in a text for words (`.find("...")`, `.starts_with("...")` and their
/// relatives), and no comparison of a `detail` or `message`. Rewording a message would change a
/// verdict.
Complaints parsed_messages(const File& file);

/// Outside the table itself: no string that is the id of a cause. `ids` are all of them.
Complaints spelled_out_causes(const File& file, const std::vector<std::string_view>& ids);

}  // namespace lockstep::tidy
