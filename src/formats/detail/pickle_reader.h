// The instructions of a pickle, one by one. Nothing is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::detail {

/// What an instruction asks of the machine that a pickle is a program for. Opcodes that differ only in
/// how their operand is written are one.
enum class PickleCode : std::uint8_t {
  kNone,
  kBool,     ///< `integer`: 0 or 1.
  kInteger,  ///< `integer`.
  kReal,     ///< `real`.
  kText,     ///< `text`.
  kMark,
  kList,   ///< An empty one,
  kTuple,  ///< an empty one,
  kDict,   ///< an empty one.
  kAppend,
  kAppends,  ///< All above the mark.
  kSetItem,
  kSetItems,  ///< All above the mark, keys and values alternate.
  kTupleOf,   ///< Of the uppermost `integer` values.
  kTupleToMark,
  kNote,      ///< Under the number `integer`.
  kNoteNext,  ///< Under the next number.
  kRecall,    ///< What was noted under the number `integer`.
  kName,      ///< `text` of the module `module`.
  kNameFromStack,
  kPersistent,
  kCall,
  kBuild,
  kStop,
  kNothing,  ///< Protocols and frames.
  kUnknown,
};

/// Requires: the pickle outlives its texts.
struct PickleInstruction {
  PickleCode code = PickleCode::kUnknown;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string_view text = {};
  std::string_view module = {};
};

/// Reads one instruction after the other.
///
/// Source: CPython's Lib/pickletools.py, protocols 0 to 5, as far as plain data and state dicts use
///     them.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  /// Errors: where = "byte N"; an end too early, a number of more than 64 bits.
  Result<PickleInstruction> next();

  /// "byte N": where the last instruction begins.
  std::string where() const;

 private:
  std::string_view take(std::uint64_t n);
  std::uint64_t number(std::size_t n_bytes);
  std::int64_t long_number();
  double real_number();
  std::string_view line();
  void fail(std::string_view what);

  std::string_view bytes_;
  std::size_t next_ = 0;
  std::size_t at_ = 0;
  std::string_view trouble_;
};

}  // namespace lockstep::detail
