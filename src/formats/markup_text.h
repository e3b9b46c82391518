// Any bytes as text of XML, SVG or HTML.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` for an element or a quoted attribute: markup is written as entities, control characters
/// other than the newline as blanks (XML 1.0 has no way to write most of them), bytes that are not
/// UTF-8 as U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace lockstep
