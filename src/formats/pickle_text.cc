#include "lockstep/formats/detail/pickle_text.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/formats/detail/pickle_reader.h"
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
  explicit PickleMachine(std::string_view bytes) : reader_(bytes) {}

  Result<std::string> run() {
    bool stopped = false;
    while (error_.empty() && !stopped) {
      const Result<PickleInstruction> instruction = reader_.next();
      if (!instruction.ok()) return instruction.error();
      stopped = instruction.value().code == PickleCode::kStop;
      if (!stopped && !take_scalar(instruction.value()) && !take_structure(instruction.value())) {
        fail("an opcode that plain data does not need");
      }
    }
    if (error_.empty() && stack_.size() != 1) fail("not one value");
    if (!error_.empty()) return Error{error_, reader_.where()};
    return stack_.back().json();
  }

 private:
  using Kind = PickleValue::Kind;

  void fail(const char* what) {
    if (error_.empty()) error_ = what;
  }

  void push(std::string json) {
    PickleValue value;
    value.text = std::move(json);
    stack_.push_back(std::move(value));
  }

  void push_container(Kind kind) {
    PickleValue value;
    value.kind = kind;
    stack_.push_back(std::move(value));
  }

  bool take_scalar(const PickleInstruction& it) {
    JsonText json;
    switch (it.code) {
      case PickleCode::kNothing:
        return true;
      case PickleCode::kNone:
        push("null");
        return true;
      case PickleCode::kBool:
        push(it.integer != 0 ? "true" : "false");
        return true;
      case PickleCode::kInteger:
        push(std::to_string(it.integer));
        return true;
      case PickleCode::kReal:
        json.real(it.real);
        push(json.str());
        return true;
      case PickleCode::kText:
        json.text(it.text);
        push(json.str());
        return true;
      default:
        return false;
    }
  }

  bool take_structure(const PickleInstruction& it) {
    switch (it.code) {
      case PickleCode::kMark:
        push_container(Kind::kMark);
        return true;
      case PickleCode::kList:
      case PickleCode::kTuple:
        push_container(Kind::kList);
        return true;
      case PickleCode::kDict:
        push_container(Kind::kDict);
        return true;
      case PickleCode::kAppend:
        fill(Kind::kList, 1, false);
        return true;
      case PickleCode::kAppends:
        fill(Kind::kList, n_above_mark(), true);
        return true;
      case PickleCode::kSetItem:
        fill(Kind::kDict, 2, false);
        return true;
      case PickleCode::kSetItems:
        fill(Kind::kDict, n_above_mark(), true);
        return true;
      case PickleCode::kTupleOf:
        make_list(static_cast<std::size_t>(it.integer), false);
        return true;
      case PickleCode::kTupleToMark:
        make_list(n_above_mark(), true);
        return true;
      default:
        return take_memo(it);
    }
  }

  bool take_memo(const PickleInstruction& it) {
    switch (it.code) {
      case PickleCode::kNote:
        note(static_cast<std::uint32_t>(it.integer));
        return true;
      case PickleCode::kNoteNext:
        note(static_cast<std::uint32_t>(memo_.size()));
        return true;
      case PickleCode::kRecall:
        recall(static_cast<std::uint32_t>(it.integer));
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

  PickleReader reader_;
  std::size_t n_spent_ = 0;
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
