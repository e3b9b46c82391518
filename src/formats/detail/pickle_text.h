// Python's pickles of plain data as JSON.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::detail {

/// Whether these bytes begin as a pickle of protocol 2 or later does.
bool is_pickle(std::string_view bytes);

/// A pickle that holds nothing but dictionaries with text keys, lists, tuples (which become lists),
/// text, numbers, booleans and None, as JSON text. Nothing is executed: an opcode that would make
/// an object is refused.
///
/// Errors: where = "byte N"; an opcode that plain data does not need, an end too early, a stack
///     that does not fit.
Result<std::string> pickle_to_json(std::string_view bytes);

}  // namespace lockstep::detail
