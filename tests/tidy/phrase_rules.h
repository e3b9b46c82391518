// English that a native engineer would write: phrases that are not, and what to write instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// One phrase that a reader would stumble over.
struct PhraseRule {
  std::string_view needle;   ///< In lower case, part of every match: finds candidates fast.
  std::string pattern;       ///< A regular expression (ECMAScript).
  std::string_view instead;  ///< What to write.
  bool cased = false;        ///< Upper and lower case differ: for names in CamelCase.
};

std::vector<PhraseRule> phrase_rules();

/// Phrases of the list in a file's prose, comments, messages and names, also where a line break, a
/// comment marker or adjacent literals divide them. The list itself and its test are exempt.
Complaints foreign_phrases(const File& file);

}  // namespace lockstep::tidy
