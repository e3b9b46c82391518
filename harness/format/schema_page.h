// The schema as text: the tables of docs/scenario_format, and a fuzzer's dictionary.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

/// The keys of all sections with this name as a table in Markdown. Empty: there is no such section.
std::string key_table(std::string_view section);

/// The page with its tables made anew: what stands between a line `<!-- keys of loop -->` and the
/// line `<!-- end of keys -->` after it is replaced by the section's table; other names are "the top
/// level" and "what is not supported yet".
///
/// Errors: a section that there is not; a table without an end.
Result<std::string> with_tables(std::string_view page);

/// Every key, word and section of the format, one per line, as libFuzzer's -dict wants them.
std::string fuzz_dictionary();

}  // namespace lockstep
