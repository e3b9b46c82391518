#include "lockstep/formats/detail/state_pickle.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/formats/detail/pickle_names.h"
#include "lockstep/formats/detail/pickle_reader.h"

namespace lockstep::detail {

namespace {

/// A value of the pickle. Containers name their parts by number, so that shared ones stay small.
struct Node {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kReal,
    kText,
    kTuple,
    kList,
    kDict,  ///< Keys and values alternate.
    kNamed,
    kStorage,
    kTensor,
    kMark,
  };

  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // Of a storage: its elements; of a tensor: which one.
  double real = 0.0;
  std::string text = {};              // Of a storage: its key.
  const PickleName* named = nullptr;  // Of a storage: its class.
  std::vector<std::uint32_t> parts = {};
};

using Kind = Node::Kind;

/// Names go into error sentences.
static std::string printable(std::string text) {
  constexpr std::size_t kLongest = 80;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  for (char& letter : text) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return text;
}

std::optional<std::string> text_of(const Node& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.integer != 0 ? "True" : "False";
    case Kind::kInteger:
      return std::to_string(value.integer);
    case Kind::kReal:
      return exact(value.real);
    case Kind::kText:
    case Kind::kNamed:
      return value.text;
    default:
      return std::nullopt;
  }
}

/// The machine that a pickle is a program for, as far as state dicts need it.
class StateMachine {
 public:
  explicit StateMachine(std::string_view bytes) : reader_(bytes) {}

  /// Leaves one value. Errors: as read_state_pickle().
  Outcome run() {
    bool stopped = false;
    while (error_.empty() && !stopped) {
      const Result<PickleInstruction> instruction = reader_.next();
      if (!instruction.ok()) return instruction.error();
      stopped = instruction.value().code == PickleCode::kStop;
      if (!stopped && !take_scalar(instruction.value()) && !take_container(instruction.value()) &&
          !take_object(instruction.value())) {
        fail("an opcode that a state dict does not need");
      }
    }
    if (error_.empty() && stack_.size() != 1) fail("not one value");
    if (!error_.empty()) return Error{error_, where()};
    return success();
  }

  /// Requires: run().ok().
  std::uint32_t root() const { return stack_.back(); }

  const Node& node(std::uint32_t index) const { return nodes_[index]; }

  const PickledTensor& tensor(std::int64_t index) const {
    return tensors_[static_cast<std::size_t>(index)];
  }

  std::string where() const { return reader_.where(); }

 private:
  static constexpr std::size_t kMostValues = 4'000'000;

  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  void push(Node node) {
    if (nodes_.size() >= kMostValues) return fail("more than four million values");
    nodes_.push_back(std::move(node));
    stack_.push_back(static_cast<std::uint32_t>(nodes_.size() - 1));
  }

  bool take_scalar(const PickleInstruction& it) {
    switch (it.code) {
      case PickleCode::kNothing:
        return true;
      case PickleCode::kNone:
        push({});
        return true;
      case PickleCode::kBool:
        push({.kind = Kind::kBool, .integer = it.integer});
        return true;
      case PickleCode::kInteger:
        push({.kind = Kind::kInteger, .integer = it.integer});
        return true;
      case PickleCode::kReal:
        push({.kind = Kind::kReal, .real = it.real});
        return true;
      case PickleCode::kText:
        push({.kind = Kind::kText, .text = std::string(it.text)});
        return true;
      default:
        return false;
    }
  }

  bool take_container(const PickleInstruction& it) {
    switch (it.code) {
      case PickleCode::kMark:
        push({.kind = Kind::kMark});
        return true;
      case PickleCode::kList:
        push({.kind = Kind::kList});
        return true;
      case PickleCode::kTuple:
        push({.kind = Kind::kTuple});
        return true;
      case PickleCode::kDict:
        push({.kind = Kind::kDict});
        return true;
      case PickleCode::kAppend:
        fill(Kind::kList, pop(1));
        return true;
      case PickleCode::kAppends:
        fill(Kind::kList, pop_to_mark());
        return true;
      case PickleCode::kSetItem:
        fill(Kind::kDict, pop(2));
        return true;
      case PickleCode::kSetItems:
        fill(Kind::kDict, pop_to_mark());
        return true;
      case PickleCode::kTupleOf:
        push({.kind = Kind::kTuple, .parts = pop(static_cast<std::size_t>(it.integer))});
        return true;
      case PickleCode::kTupleToMark:
        push({.kind = Kind::kTuple, .parts = pop_to_mark()});
        return true;
      default:
        return false;
    }
  }

  bool take_object(const PickleInstruction& it) {
    switch (it.code) {
      case PickleCode::kNote:
        note(static_cast<std::uint64_t>(it.integer));
        return true;
      case PickleCode::kNoteNext:
        note(memo_.size());
        return true;
      case PickleCode::kRecall:
        recall(static_cast<std::uint64_t>(it.integer));
        return true;
      case PickleCode::kName:
        push_name(std::string(it.module) + "." + std::string(it.text));
        return true;
      case PickleCode::kNameFromStack:
        take_name_from_stack();
        return true;
      case PickleCode::kPersistent:
        take_storage();
        return true;
      case PickleCode::kCall:
        call();
        return true;
      case PickleCode::kBuild:
        take_attributes();
        return true;
      default:
        return false;
    }
  }

  std::vector<std::uint32_t> pop(std::size_t n) {
    if (n > stack_.size()) {
      fail("too little on the stack");
      return {};
    }
    std::vector<std::uint32_t> parts(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
    stack_.resize(stack_.size() - n);
    const bool any_mark = std::any_of(parts.begin(), parts.end(), [this](std::uint32_t i) {
      return node(i).kind == Kind::kMark;
    });
    if (any_mark) fail("a mark where a value belongs");
    return parts;
  }

  std::vector<std::uint32_t> pop_to_mark() {
    for (std::size_t n = 0; n < stack_.size(); ++n) {
      if (node(stack_[stack_.size() - 1 - n]).kind != Kind::kMark) continue;
      std::vector<std::uint32_t> parts = pop(n);
      stack_.pop_back();
      return parts;
    }
    fail("no mark on the stack");
    return {};
  }

  void fill(Kind kind, const std::vector<std::uint32_t>& parts) {
    if (stack_.empty() || node(stack_.back()).kind != kind) return fail("no container to fill");
    if (kind == Kind::kDict && parts.size() % 2 != 0) return fail("a key without a value");
    std::vector<std::uint32_t>& all = nodes_[stack_.back()].parts;
    all.insert(all.end(), parts.begin(), parts.end());
  }

  void note(std::uint64_t key) {
    if (stack_.empty()) return fail("nothing to note");
    memo_[key] = stack_.back();
  }

  void recall(std::uint64_t key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) return fail("nothing was noted here");
    stack_.push_back(known->second);
  }

  void take_name_from_stack() {
    const std::vector<std::uint32_t> parts = pop(2);
    if (parts.size() == 2) push_name(node(parts[0]).text + "." + node(parts[1]).text);
  }

  void push_name(const std::string& name) {
    if (!error_.empty()) return;
    if (const PickleName* const known = find_pickle_name(name)) {
      return push({.kind = Kind::kNamed, .text = name, .named = known});
    }
    fail("it asks for '" + printable(name) + "', which a state dict does not hold");
  }

  /// ('storage', CLASS, KEY, LOCATION, N)
  void take_storage() {
    const std::vector<std::uint32_t> top = pop(1);
    if (top.size() != 1) return;
    const std::vector<std::uint32_t> parts = node(top[0]).parts;
    const bool fits = parts.size() == 5 && node(parts[0]).text == "storage" &&
                      node(parts[1]).kind == Kind::kNamed && node(parts[2]).kind == Kind::kText &&
                      node(parts[4]).kind == Kind::kInteger;
    const PickleName* const named = fits ? node(parts[1]).named : nullptr;
    const bool is_class = named != nullptr && (named->what == PickleCall::kStorage ||
                                               named->what == PickleCall::kBytes);
    if (!is_class) return fail("a persistent id of something other than a storage");
    push({.kind = Kind::kStorage,
          .integer = node(parts[4]).integer,
          .text = node(parts[2]).text,
          .named = named});
  }

  void call() {
    const std::vector<std::uint32_t> top = pop(2);
    if (top.size() != 2) return;
    const PickleName* const named =
        node(top[0]).kind == Kind::kNamed ? node(top[0]).named : nullptr;
    if (named == nullptr || node(top[1]).kind != Kind::kTuple) return fail("a call of no function");
    const std::vector<std::uint32_t> given = node(top[1]).parts;
    switch (named->what) {
      case PickleCall::kOrderedDict:
        return make_dict(given);
      case PickleCall::kSize:
        if (given.size() != 1) return fail("torch.Size takes one tuple");
        return push({.kind = Kind::kTuple, .parts = node(given[0]).parts});
      case PickleCall::kTensor:
      case PickleCall::kTypedTensor:
        return make_tensor(given, named->what == PickleCall::kTypedTensor);
      case PickleCall::kParameter:
        if (given.empty() || node(given[0]).kind != Kind::kTensor)
          return fail("a parameter of no tensor");
        return stack_.push_back(given[0]);
      case PickleCall::kStorage:
      case PickleCall::kBytes:
      case PickleCall::kElementType:
        return fail("a call of '" + std::string(named->name) + "', which cannot be called");
    }
  }

  /// OrderedDict(), or OrderedDict([(key, value), ...]).
  void make_dict(const std::vector<std::uint32_t>& given) {
    Node dict{.kind = Kind::kDict};
    if (given.size() > 1) return fail("an OrderedDict of more than one thing");
    if (given.size() == 1) {
      for (const std::uint32_t pair : node(given[0]).parts) {
        if (node(pair).parts.size() != 2)
          return fail("an OrderedDict of something other than pairs");
        dict.parts.insert(dict.parts.end(), node(pair).parts.begin(), node(pair).parts.end());
      }
    }
    push(std::move(dict));
  }

  std::optional<std::vector<std::int64_t>> integers_of(std::uint32_t index) const {
    if (node(index).kind != Kind::kTuple && node(index).kind != Kind::kList) return std::nullopt;
    std::vector<std::int64_t> values;
    for (const std::uint32_t part : node(index).parts) {
      if (node(part).kind != Kind::kInteger) return std::nullopt;
      values.push_back(node(part).integer);
    }
    return values;
  }

  void make_tensor(const std::vector<std::uint32_t>& given, bool typed) {
    if (given.size() < (typed ? 7U : 4U)) return fail("a tensor with too few arguments");
    const Node& storage = node(given[0]);
    const std::optional<std::vector<std::int64_t>> sizes = integers_of(given[2]);
    const std::optional<std::vector<std::int64_t>> strides = integers_of(given[3]);
    const bool fits = storage.kind == Kind::kStorage && node(given[1]).kind == Kind::kInteger &&
                      sizes && strides && sizes->size() == strides->size();
    if (!fits) return fail("a tensor whose storage, offset, sizes and strides do not fit");
    const PickleName* const type = typed ? node(given[6]).named : storage.named;
    const PickleCall wanted = typed ? PickleCall::kElementType : PickleCall::kStorage;
    if (type == nullptr || type->what != wanted) return fail("a tensor without an element type");
    tensors_.push_back({.name = {},
                        .storage = storage.text,
                        .type = type->type,
                        .offset = node(given[1]).integer,
                        .sizes = *sizes,
                        .strides = *strides});
    push({.kind = Kind::kTensor, .integer = static_cast<std::int64_t>(tensors_.size()) - 1});
  }

  /// Attributes of an OrderedDict, such as the versions of modules, are left out.
  void take_attributes() {
    pop(1);
    if (!error_.empty()) return;
    if (stack_.empty() || node(stack_.back()).kind != Kind::kDict) {
      fail("attributes of something other than a dictionary");
    }
  }

  PickleReader reader_;
  std::string error_;
  std::vector<Node> nodes_;
  std::vector<PickledTensor> tensors_;
  std::vector<std::uint32_t> stack_;
  std::map<std::uint64_t, std::uint32_t> memo_;
};

/// Names what a machine has left: tensors and other values, in their order.
class Flattening {
 public:
  explicit Flattening(const StateMachine& machine) : machine_(machine) {}

  /// Parts are put on a stack in reverse.
  Result<PickledState> run() {
    std::vector<Pending> pending = {{machine_.root(), "", 0}};
    std::size_t n = 0;
    while (!pending.empty() && error_.empty()) {
      const Pending now = std::move(pending.back());
      pending.pop_back();
      if (++n > kMostEntries) {
        error_ = "more than a million entries";
      } else if (now.depth > kDeepest) {
        error_ = "dictionaries more than 64 deep";
      } else {
        take_entry(now, pending);
      }
    }
    if (!error_.empty()) return Error{error_, machine_.where()};
    return std::move(state_);
  }

 private:
  static constexpr std::size_t kMostEntries = 1'000'000;
  static constexpr std::size_t kDeepest = 64;

  struct Pending {
    std::uint32_t index = 0;
    std::string name;
    std::size_t depth = 0;
  };

  void take_entry(const Pending& now, std::vector<Pending>& pending) {
    const Node& value = machine_.node(now.index);
    const std::string prefix = now.name.empty() ? "" : now.name + "/";
    const auto add = [&](std::string name, std::uint32_t index) {
      pending.push_back({index, prefix + std::move(name), now.depth + 1});
    };
    const std::size_t n = value.parts.size();
    switch (value.kind) {
      case Kind::kDict:
        for (std::size_t i = n; i >= 2; i -= 2) {
          const std::optional<std::string> key = text_of(machine_.node(value.parts[i - 2]));
          if (!key) {
            error_ = "a key that is neither a text nor a number";
            return;
          }
          add(*key, value.parts[i - 1]);
        }
        return;
      case Kind::kList:
      case Kind::kTuple:
        for (std::size_t i = n; i-- > 0;) add(std::to_string(i), value.parts[i]);
        return;
      case Kind::kTensor:
        state_.tensors.push_back(machine_.tensor(value.integer));
        state_.tensors.back().name = now.name;
        return;
      case Kind::kStorage:
        error_ = "a storage that belongs to no tensor";
        return;
      default:
        state_.values.emplace_back(now.name, text_of(value).value_or(""));
    }
  }

  const StateMachine& machine_;
  std::string error_;
  PickledState state_;
};

}  // namespace

Result<PickledState> read_state_pickle(std::string_view bytes) {
  StateMachine machine(bytes);
  const Outcome outcome = machine.run();
  if (!outcome.ok()) return outcome.error();
  return Flattening(machine).run();
}

}  // namespace lockstep::detail
