// House rules about comments in headers: a contract that a formatter has torn is not read.
#pragma once

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// Doc comments that do not have the shape of this one: a paragraph, then tags, each at the
/// beginning of a line with one space after it and further lines indented by four. A comment of a
/// single line may carry its tag after its sentence.
///
/// Returns: what is wrong and where; fields' comments are left out, since formatters align them as
///     they like.
Complaints torn_doc_comments(const File& header);

/// A word that stands alone on a line of a comment though the sentence continues below it.
Complaints orphaned_words(const File& header);

}  // namespace lockstep::tidy
