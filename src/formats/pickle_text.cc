#include "lockstep/formats/detail/pickle_text.h"

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/formats/json_text.h"

namespace lockstep::detail {

namespace {

/// A value on the stack. Containers keep their parts until they are needed as text.
struct PickleValue {
  enum class Kind : std::uint8_t { kMark, kScalar, kList, kDict };

  Kind kind = Kind::kScalar;
  std::string text = {};                   // Of a scalar, as JSON.
  std::vector<std::string> parts = {};     // Items, or alternating keys and values.
  std::optional<std::uint32_t> memo = {};  // Where a container was noted before it was filled.

  std::string json() const {
    if (kind == Kind::kScalar) return text;
    const bool dict = kind == Kind::kDict;
    std::string out(1, dict ? '{' : '[');
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) out += dict && i % 2 == 1 ? ':' : ',';
      out += parts[i];
    }
    return out + (dict ? '}' : ']');
  }
};

/// The machine that a pickle is a program for, as far as plain data needs it.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  Result<std::string> run() {
    while (error_.empty() && !stopped_) {
      at_ = next_;
      const auto opcode = static_cast<char>(integer(1));
      if (error_.empty() && !take_scalar(opcode) && !take_structure(opcode)) {
        fail("an opcode that plain data does not need");
      }
    }
    if (!error_.empty()) return Error{error_, "byte " + std::to_string(at_)};
    if (stack_.size() != 1) return Error{"not one value", "byte " + std::to_string(at_)};
    return stack_.back().json();
  }

 private:
  using Kind = PickleValue::Kind;

  void fail(const char* what) {
    if (error_.empty()) error_ = what;
  }

  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - next_) {
      fail("the pickle ends too early");
      return {};
    }
    const std::string_view taken = bytes_.substr(next_, n);
    next_ += n;
    return taken;
  }

  /// Little endian.
  std::uint64_t integer(std::size_t n_bytes) {
    std::uint64_t value = 0;
    std::size_t shift = 0;
    for (const char byte : take(n_bytes)) {
      if (shift < 64) value |= std::uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return value;
  }

  void push(std::string json) {
    PickleValue value;
    value.text = std::move(json);
    stack_.push_back(std::move(value));
  }

  void push_integer(std::int64_t value) { push(std::to_string(value)); }

  void push_text(std::uint64_t n_bytes) {
    JsonText json;
    json.text(take(n_bytes));
    push(json.str());
  }

  void push_container(Kind kind) {
    PickleValue value;
    value.kind = kind;
    stack_.push_back(std::move(value));
  }

  /// A number of any size, in two's complement; such that does not fit 64 bits is refused.
  void push_long() {
    const std::uint64_t n_bytes = integer(1);
    if (n_bytes > 8) return fail("a number of more than 64 bits");
    std::uint64_t value = integer(n_bytes);
    const bool negative = n_bytes > 0 && n_bytes < 8 && ((value >> (8 * n_bytes - 1)) & 1U) != 0;
    if (negative) value |= ~std::uint64_t{0} << (8 * n_bytes);
    push_integer(static_cast<std::int64_t>(value));
  }

  /// The one big-endian format.
  void push_real() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = (bits << 8U) | static_cast<unsigned char>(byte);
    JsonText json;
    json.real(std::bit_cast<double>(bits));
    push(json.str());
  }

  bool take_scalar(char opcode) {
    switch (opcode) {
      case 'N':
        push("null");
        return true;
      case '\x88':
        push("true");
        return true;
      case '\x89':
        push("false");
        return true;
      case 'K':
        push_integer(static_cast<std::int64_t>(integer(1)));
        return true;
      case 'M':
        push_integer(static_cast<std::int64_t>(integer(2)));
        return true;
      case 'J':
        push_integer(static_cast<std::int32_t>(integer(4)));
        return true;
      case '\x8a':
        push_long();
        return true;
      case 'G':
        push_real();
        return true;
      case 'X':
        push_text(integer(4));
        return true;
      case '\x8c':
        push_text(integer(1));
        return true;
      default:
        return false;
    }
  }

  bool take_structure(char opcode) {
    switch (opcode) {
      case '\x80':
        take(1);  // The protocol.
        return true;
      case '\x95':
        take(8);  // A frame: how much to read at once.
        return true;
      case '(':
        push_container(Kind::kMark);
        return true;
      case ']':
      case ')':
        push_container(Kind::kList);
        return true;
      case '}':
        push_container(Kind::kDict);
        return true;
      case 'e':
        fill(Kind::kList, n_above_mark(), true);
        return true;
      case 'u':
        fill(Kind::kDict, n_above_mark(), true);
        return true;
      case 'a':
        fill(Kind::kList, 1, false);
        return true;
      case 's':
        fill(Kind::kDict, 2, false);
        return true;
      case '.':
        stopped_ = true;
        return true;
      default:
        return take_tuple(opcode) || take_memo(opcode);
    }
  }

  bool take_tuple(char opcode) {
    switch (opcode) {
      case '\x85':
        make_list(1, false);
        return true;
      case '\x86':
        make_list(2, false);
        return true;
      case '\x87':
        make_list(3, false);
        return true;
      case 't':
        make_list(n_above_mark(), true);
        return true;
      default:
        return false;
    }
  }

  bool take_memo(char opcode) {
    switch (opcode) {
      case 'q':
        note(static_cast<std::uint32_t>(integer(1)));
        return true;
      case 'r':
        note(static_cast<std::uint32_t>(integer(4)));
        return true;
      case '\x94':
        note(static_cast<std::uint32_t>(memo_.size()));
        return true;
      case 'h':
        recall(static_cast<std::uint32_t>(integer(1)));
        return true;
      case 'j':
        recall(static_cast<std::uint32_t>(integer(4)));
        return true;
      default:
        return false;
    }
  }

  std::size_t n_above_mark() {
    for (std::size_t n = 0; n < stack_.size(); ++n) {
      if (stack_[stack_.size() - 1 - n].kind == Kind::kMark) return n;
    }
    fail("no mark on the stack");
    return 0;
  }

  /// The uppermost values as JSON, taken off the stack, with the mark below them.
  std::vector<std::string> pop(std::size_t n, bool with_mark) {
    std::vector<std::string> parts;
    const std::size_t n_off = n + (with_mark ? 1 : 0);
    if (!error_.empty() || n_off > stack_.size()) {
      fail("too little on the stack");
      return parts;
    }
    parts.reserve(n);
    for (std::size_t i = stack_.size() - n; i < stack_.size(); ++i) {
      if (stack_[i].kind == Kind::kMark) fail("a mark where a value belongs");
      parts.push_back(stack_[i].json());
    }
    stack_.resize(stack_.size() - n_off);
    return parts;
  }

  void make_list(std::size_t n, bool with_mark) {
    PickleValue value;
    value.kind = Kind::kList;
    value.parts = pop(n, with_mark);
    stack_.push_back(std::move(value));
  }

  /// Adds the uppermost values to the container below them.
  void fill(Kind kind, std::size_t n, bool with_mark) {
    const std::vector<std::string> parts = pop(n, with_mark);
    if (stack_.empty() || stack_.back().kind != kind) return fail("no container to fill");
    if (kind == Kind::kDict && !are_pairs(parts)) return fail("keys must be text");
    PickleValue& container = stack_.back();
    container.parts.insert(container.parts.end(), parts.begin(), parts.end());
    if (container.memo) keep(*container.memo, container.json());
  }

  static bool are_pairs(const std::vector<std::string>& parts) {
    if (parts.size() % 2 != 0) return false;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      if (!parts[i].starts_with('"')) return false;
    }
    return true;
  }

  void note(std::uint32_t key) {
    if (stack_.empty() || stack_.back().kind == Kind::kMark) return fail("nothing to note");
    PickleValue& value = stack_.back();
    keep(key, value.json());
    // A later note of the same container stands for it as well; it is filled by then.
    if (value.kind != Kind::kScalar && !value.memo) value.memo = key;
  }

  void recall(std::uint32_t key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) return fail("nothing was noted here");
    spend(known->second.size());
    if (error_.empty()) push(known->second);
  }

  void keep(std::uint32_t key, std::string json) {
    spend(json.size());
    if (error_.empty()) memo_[key] = std::move(json);
  }

  /// Values that contain each other many times over can be a small file and a large text.
  void spend(std::size_t n_bytes) {
    n_spent_ += n_bytes;
    if (n_spent_ > kMostSpent) fail("too much data");
  }

  static constexpr std::size_t kMostSpent = std::size_t{1} << 28U;

  std::string_view bytes_;
  std::size_t n_spent_ = 0;
  std::size_t next_ = 0;
  std::size_t at_ = 0;
  bool stopped_ = false;
  std::string error_;
  std::vector<PickleValue> stack_;
  std::map<std::uint32_t, std::string> memo_;
};

}  // namespace

bool is_pickle(std::string_view bytes) {
  return bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

Result<std::string> pickle_to_json(std::string_view bytes) { return PickleMachine(bytes).run(); }

}  // namespace lockstep::detail
