#include "lockstep/formats/detail/pickle_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace lockstep::detail {

namespace {

/// What follows an opcode.
enum class Operand : std::uint8_t {
  kConstant,  ///< Nothing: the table says its value.
  kUnsigned,  ///< A little-endian number of `size` bytes.
  kSigned,    ///< The same of four bytes, in two's complement.
  kLong,      ///< A length of one byte and as many of a number.
  kReal,      ///< Eight bytes, the one big-endian format.
  kText,      ///< A length of `size` bytes and as many of UTF-8.
  kSkipped,   ///< `size` bytes that say nothing here.
  kLines,     ///< Two lines: a module and a name.
};

struct Row {
  char opcode;
  PickleCode code;
  Operand operand = Operand::kConstant;
  std::uint8_t size = 0;  ///< Of kConstant: its value.
};

constexpr auto kRows = std::to_array<Row>({
    {'N', PickleCode::kNone},
    {'\x88', PickleCode::kBool, Operand::kConstant, 1},
    {'\x89', PickleCode::kBool, Operand::kConstant, 0},
    {'K', PickleCode::kInteger, Operand::kUnsigned, 1},
    {'M', PickleCode::kInteger, Operand::kUnsigned, 2},
    {'J', PickleCode::kInteger, Operand::kSigned, 4},
    {'\x8a', PickleCode::kInteger, Operand::kLong},
    {'G', PickleCode::kReal, Operand::kReal},
    {'X', PickleCode::kText, Operand::kText, 4},
    {'\x8c', PickleCode::kText, Operand::kText, 1},
    {'\x80', PickleCode::kNothing, Operand::kSkipped, 1},
    {'\x95', PickleCode::kNothing, Operand::kSkipped, 8},
    {'(', PickleCode::kMark},
    {']', PickleCode::kList},
    {')', PickleCode::kTuple},
    {'}', PickleCode::kDict},
    {'a', PickleCode::kAppend},
    {'e', PickleCode::kAppends},
    {'s', PickleCode::kSetItem},
    {'u', PickleCode::kSetItems},
    {'\x85', PickleCode::kTupleOf, Operand::kConstant, 1},
    {'\x86', PickleCode::kTupleOf, Operand::kConstant, 2},
    {'\x87', PickleCode::kTupleOf, Operand::kConstant, 3},
    {'t', PickleCode::kTupleToMark},
    {'q', PickleCode::kNote, Operand::kUnsigned, 1},
    {'r', PickleCode::kNote, Operand::kUnsigned, 4},
    {'\x94', PickleCode::kNoteNext},
    {'h', PickleCode::kRecall, Operand::kUnsigned, 1},
    {'j', PickleCode::kRecall, Operand::kUnsigned, 4},
    {'c', PickleCode::kName, Operand::kLines},
    {'\x93', PickleCode::kNameFromStack},
    {'Q', PickleCode::kPersistent},
    {'R', PickleCode::kCall},
    {'b', PickleCode::kBuild},
    {'.', PickleCode::kStop},
});

constexpr std::string_view kTooEarly = "the pickle ends too early";

}  // namespace

Result<PickleInstruction> PickleReader::next() {
  at_ = next_;
  const std::string_view opcode = take(1);
  PickleInstruction found;
  const auto* const row =
      opcode.empty() ? kRows.end() : std::ranges::find(kRows, opcode.front(), &Row::opcode);
  if (row != kRows.end()) {
    found.code = row->code;
    switch (row->operand) {
      case Operand::kConstant:
        found.integer = row->size;
        break;
      case Operand::kUnsigned:
        found.integer = static_cast<std::int64_t>(number(row->size));
        break;
      case Operand::kSigned:
        found.integer = static_cast<std::int32_t>(number(row->size));
        break;
      case Operand::kLong:
        found.integer = long_number();
        break;
      case Operand::kReal:
        found.real = real_number();
        break;
      case Operand::kText:
        found.text = take(number(row->size));
        break;
      case Operand::kSkipped:
        take(row->size);
        break;
      case Operand::kLines:
        found.module = line();
        found.text = line();
        break;
    }
  }
  if (!trouble_.empty()) return Error{std::string(trouble_), where()};
  return found;
}

std::string PickleReader::where() const { return "byte " + std::to_string(at_); }

std::string_view PickleReader::take(std::uint64_t n) {
  if (n > bytes_.size() - next_) {
    fail(kTooEarly);
    return {};
  }
  const std::string_view taken = bytes_.substr(next_, static_cast<std::size_t>(n));
  next_ += taken.size();
  return taken;
}

/// Requires: at most eight bytes.
std::uint64_t PickleReader::number(std::size_t n_bytes) {
  std::uint64_t value = 0;
  std::size_t shift = 0;
  for (const char byte : take(n_bytes)) {
    value |= std::uint64_t{static_cast<unsigned char>(byte)} << shift;
    shift += 8;
  }
  return value;
}

std::int64_t PickleReader::long_number() {
  const std::uint64_t n_bytes = number(1);
  if (n_bytes > 8) {
    fail("a number of more than 64 bits");
    return 0;
  }
  std::uint64_t value = number(static_cast<std::size_t>(n_bytes));
  const bool negative = n_bytes > 0 && n_bytes < 8 && ((value >> (8 * n_bytes - 1)) & 1U) != 0;
  if (negative) value |= ~std::uint64_t{0} << (8 * n_bytes);
  return static_cast<std::int64_t>(value);
}

double PickleReader::real_number() {
  std::uint64_t bits = 0;
  for (const char byte : take(8)) bits = (bits << 8U) | static_cast<unsigned char>(byte);
  return std::bit_cast<double>(bits);
}

std::string_view PickleReader::line() {
  const std::size_t end = bytes_.find('\n', next_);
  if (end == std::string_view::npos) {
    fail(kTooEarly);
    return {};
  }
  const std::string_view taken = bytes_.substr(next_, end - next_);
  next_ = end + 1;
  return taken;
}

void PickleReader::fail(std::string_view what) {
  if (trouble_.empty()) trouble_ = what;
}

}  // namespace lockstep::detail
