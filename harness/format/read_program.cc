// tensor.NAME and program: what each rank calls, written out instead of a model and a loop.
#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// What an operation of a program takes. Letters of `keys`: t tensor, o outputs, r root, e reduce,
/// g group, a async, s site, p peer, T tag, n ns, N name, v value, w work, q equals, k ranks, b
/// body.
struct OpKeys {
  std::string_view keys;
  std::string_view required;
};

/// By RawOpKind.
constexpr std::array<OpKeys, kWords<RawOpKind>.size()> kKeysOf = {{
    {"tegas", "t"},    // all_reduce
    {"trgas", "t"},    // broadcast
    {"tregas", "t"},   // reduce
    {"togas", "to"},   // all_gather
    {"torgas", "to"},  // gather
    {"torgas", "to"},  // scatter
    {"toegas", "to"},  // reduce_scatter
    {"togas", "to"},   // all_to_all
    {"gas", ""},       // barrier
    {"tpTgas", "tp"},  // send
    {"tpTgas", "tp"},  // recv
    {"w", "w"},        // wait
    {"ts", "t"},       // read
    {"tvs", "tv"},     // write
    {"n", "n"},        // compute
    {"Nv", "Nv"},      // decision
    {"Nk", "Nk"},      // group
    {"Rb", "Rb"},      // repeat
    {"tq", "tq"},      // expect
    {"m", ""},         // throw
    {"", ""},          // exit
    {"m", "m"},        // log
}};

/// ":12:5" of "folder/job.toml:12:5".
std::string line_and_column(const std::string& where) {
  const std::size_t column = where.rfind(':');
  if (column == std::string::npos || column == 0) return {};
  const std::size_t line = where.rfind(':', column - 1);
  return line == std::string::npos ? std::string() : where.substr(line);
}

/// The file's name, of a reproduction that of the file it was made from: a run must not depend on
/// where its file lies.
std::string name_in_run(TableReader& root, const std::string& path) {
  const TomlNode* replay = root.table("replay");
  const TomlNode* original = replay == nullptr ? nullptr : replay->find("scenario");
  if (original != nullptr && !original->text.empty()) return original->text;
  return std::filesystem::path(path).filename().string();
}

class ProgramReader {
 public:
  /// `file` is what call sites and errors of the run call the file, wherever it lies.
  ProgramReader(const Scenario& scenario, std::string file, Problem& problem)
      : scenario_(scenario), file_(std::move(file)), problem_(problem) {}

  /// Reads nested bodies with a list of open ones instead of recursion.
  std::vector<RawOp> read(const TomlNode& body) {
    std::vector<RawOp> program;
    std::vector<OpenBody> open = {{&body, &program, 1}};
    while (!open.empty()) {
      const OpenBody at = open.back();
      open.pop_back();
      at.to->resize(at.from->items.size());
      for (std::size_t i = 0; i < at.from->items.size(); ++i) {
        RawOp& op = (*at.to)[i];
        const TomlNode* inner = read_op(at.from->items[i], op);
        if (inner != nullptr) open.push_back({inner, &op.body, times_of(op, at, *inner)});
      }
    }
    return program;
  }

 private:
  /// A body that is not read yet, and how often a rank goes through it.
  struct OpenBody {
    const TomlNode* from = nullptr;
    std::vector<RawOp>* to = nullptr;
    std::int64_t times = 1;
  };

  /// How often the body of `op` is repeated in all. A loop that never ends looks like a hang without
  /// a place: not even the budget of scheduling points ends one whose body has none.
  std::int64_t times_of(const RawOp& op, const OpenBody& around, const TomlNode& body) {
    constexpr std::int64_t kMostTimes = 1'000'000'000;
    if (op.times <= kMostTimes / std::max<std::int64_t>(around.times, 1)) {
      return op.times * around.times;
    }
    problem_.report("this body is repeated more than 1000000000 times, with the loops around it",
                    body.where);
    return 1;
  }

  /// Returns the body of a `repeat`, to be read next.
  const TomlNode* read_op(const TomlNode& node, RawOp& op) {
    op.where = file_ + line_and_column(node.where);
    if (!node.is_table()) {
      problem_.report("an operation is a table: { op = \"barrier\" }", node.where);
      return nullptr;
    }
    TableReader table(node, "op", problem_);
    const std::string word = table.text("op", "");
    const std::optional<RawOpKind> kind = parse_word<RawOpKind>(word);
    if (!kind) {
      problem_.report("unknown operation '" + word + "'" + did_you_mean(word, kWords<RawOpKind>),
                      table.where("op"));
      return nullptr;
    }
    op.op = *kind;
    const OpKeys& keys = kKeysOf[static_cast<std::size_t>(op.op)];
    const auto takes = [&](char letter) {
      return keys.keys.find(letter) != std::string_view::npos;
    };
    read_communication(table, takes, op);
    const TomlNode* body = read_rest(table, takes, op);
    check_required(table, keys, op);
    table.finish();
    return body;
  }

  template <typename Takes>
  void read_communication(TableReader& table, const Takes& takes, RawOp& op) {
    if (takes('t')) op.tensor = tensor_name(table, "tensor");
    if (takes('o')) op.name = tensor_name(table, "output");
    if (takes('e')) {
      const std::string reduce = table.word("reduce",
                                            "sum",
                                            {"sum", "avg", "product", "min", "max"},
                                            {"premul_sum", "band", "bor", "bxor"});
      op.reduce = parse_word<ReduceOp>(reduce).value_or(op.reduce);
    }
    if (takes('g')) op.group = table.text("group", "");
    if (takes('r')) op.root = table.small("root", 0, 0, scenario_.n_ranks - 1);
    if (takes('p')) op.peer = table.small("peer", 0, 0, scenario_.n_ranks - 1);
    if (takes('T')) op.tag = table.small("tag", 0);
    if (takes('a')) op.work = table.text("async", "");
    if (takes('s')) op.site = read_site(table, problem_);
    if (takes('w')) op.work = table.text("work", "");
  }

  template <typename Takes>
  const TomlNode* read_rest(TableReader& table, const Takes& takes, RawOp& op) {
    if (takes('n')) op.number = table.integer("ns", 0);
    if (takes('N')) op.name = table.text("name", "");
    if (takes('m')) op.name = table.text("message", "thrown by the scenario");
    if (takes('v') && op.op == RawOpKind::kDecision)
      op.number = table.integer("value", 0, INT64_MIN);
    if (takes('v') && op.op == RawOpKind::kWrite) op.value = table.number("value", 0.0);
    if (takes('q')) op.equals = table.numbers("equals");
    if (takes('R')) op.times = table.integer("times", 1, 0);
    if (takes('k')) {
      if (const TomlNode* list = table.array("ranks")) {
        op.ranks = ranks_of(*list, scenario_.n_ranks, problem_);
      }
    }
    return takes('b') ? table.array("body") : nullptr;
  }

  void check_required(TableReader& table, const OpKeys& keys, const RawOp& op) {
    struct Need {
      char letter;
      std::string_view key;
    };

    constexpr std::array<Need, 12> kNeeds = {{{'t', "tensor"},
                                              {'o', "output"},
                                              {'p', "peer"},
                                              {'w', "work"},
                                              {'n', "ns"},
                                              {'N', "name"},
                                              {'v', "value"},
                                              {'k', "ranks"},
                                              {'R', "times"},
                                              {'b', "body"},
                                              {'q', "equals"},
                                              {'m', "message"}}};
    for (const Need& need : kNeeds) {
      if (keys.required.find(need.letter) == std::string_view::npos || table.has(need.key))
        continue;
      problem_.report(
          "operation '" + std::string(name_of(op.op)) + "' needs '" + std::string(need.key) + "'",
          table.where());
    }
  }

  std::string tensor_name(TableReader& table, std::string_view key) {
    std::string name = table.text(key, "");
    if (name.empty() || scenario_.tensors.contains(name)) return name;
    std::vector<std::string_view> known;
    for (const auto& [declared, tensor] : scenario_.tensors) known.push_back(declared);
    problem_.report("no tensor '" + name + "' is declared" + did_you_mean(name, known),
                    table.where(key));
    return name;
  }

  const Scenario& scenario_;
  std::string file_;
  Problem& problem_;
};

std::int64_t n_elems(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check_fill(const TableReader& table,
                const RawTensor& tensor,
                std::int32_t n_ranks,
                Problem& problem) {
  const auto wanted = static_cast<std::size_t>(n_elems(tensor.shape));
  const auto complain = [&](std::size_t n) {
    problem.report("a tensor of " + std::to_string(wanted) + " elements cannot be filled with " +
                       std::to_string(n) + " values",
                   table.where());
  };
  if (!tensor.values.empty() && tensor.values.size() != wanted) complain(tensor.values.size());
  if (tensor.by_rank.empty()) return;
  if (tensor.by_rank.size() != static_cast<std::size_t>(n_ranks)) {
    problem.report("'by_rank' has " + std::to_string(tensor.by_rank.size()) + " lists for " +
                       std::to_string(n_ranks) + " ranks",
                   table.where("by_rank"));
  }
  for (const std::vector<double>& values : tensor.by_rank) {
    if (values.size() != wanted) complain(values.size());
  }
}

RawTensor read_tensor(const TomlField& field, std::int32_t n_ranks, Problem& problem) {
  RawTensor tensor;
  if (!field.value.is_table()) {
    problem.report("a tensor is a table: { dtype = \"f32\", shape = [4], fill = \"rank+1\" }",
                   field.value.where);
    return tensor;
  }
  TableReader table(field.value, "tensor." + field.key, problem);
  if (table.has("view")) {
    tensor.view = table.text("view", "");
    tensor.offset = table.integer("offset", 0, 0);
    tensor.shape = table.has("shape") ? table.integers("shape") : std::vector<std::int64_t>{1};
    table.finish();
    return tensor;
  }
  const std::string dtype =
      table.word("dtype", "f32", {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64", "bool"});
  tensor.dtype = parse_word<DType>(dtype).value_or(DType::kF32);
  tensor.shape = table.has("shape") ? table.integers("shape") : std::vector<std::int64_t>{1};
  const bool positive =
      std::all_of(tensor.shape.begin(), tensor.shape.end(), [](auto size) { return size > 0; });
  if (!positive || tensor.shape.size() > 4) {
    problem.report("a shape is one to four positive sizes", table.where("shape"));
    tensor.shape = {1};
  } else if (!is_affordable(tensor.shape)) {
    problem.report("a tensor has at most 2^31 elements", table.where("shape"));
    tensor.shape = {1};
  }
  if (const TomlNode* fill = table.node("fill")) {
    if (fill->is_number()) {
      tensor.fill = fill->number;
    } else if (fill->is_array()) {
      tensor.values = numbers_of(*fill, table.path("fill"), problem);
    } else if (fill->text != "rank+1") {
      problem.report("'fill' is \"rank+1\", a number or a list of values", fill->where);
    }
  }
  if (table.has("values")) tensor.values = table.numbers("values");
  tensor.by_rank = table.number_lists("by_rank");
  table.finish();
  check_fill(table, tensor, n_ranks, problem);
  return tensor;
}

/// A view lies inside a tensor that has its own memory.
void check_view(const TomlField& field, const Scenario& scenario, Problem& problem) {
  const RawTensor& view = scenario.tensors.at(field.key);
  if (view.view.empty()) return;
  const auto base = scenario.tensors.find(view.view);
  const bool sized =
      view.shape.size() <= 4 && is_affordable(view.shape) &&
      std::all_of(view.shape.begin(), view.shape.end(), [](auto size) { return size > 0; });
  if (base == scenario.tensors.end() || !base->second.view.empty()) {
    problem.report("a view is of a declared tensor that is not a view itself", field.value.where);
  } else if (!sized || view.offset + n_elems(view.shape) > n_elems(base->second.shape)) {
    problem.report("the view does not lie inside '" + view.view + "'", field.value.where);
  }
}

}  // namespace

void read_programs(TableReader& root, Scenario& scenario, Problem& problem) {
  if (const TomlNode* tensors = root.table("tensor")) {
    for (const TomlField& field : tensors->fields) {
      scenario.tensors[field.key] = read_tensor(field, scenario.n_ranks, problem);
    }
    for (const TomlField& field : tensors->fields) check_view(field, scenario, problem);
  }
  const TomlNode* programs = root.array("program");
  if (programs == nullptr) return;
  ProgramReader reader(scenario, name_in_run(root, scenario.path), problem);
  for (const TomlNode& node : programs->items) {
    if (!node.is_table()) {
      problem.report("a program is a table: { ranks = [0], body = [...] }", node.where);
      continue;
    }
    TableReader table(node, "program", problem);
    RawProgram program;
    program.ranks = read_ranks(table, scenario.n_ranks, problem);
    const TomlNode* body = table.array("body");
    if (body == nullptr) {
      problem.report("a program needs a body", table.where());
    } else {
      program.body = reader.read(*body);
    }
    table.finish();
    scenario.programs.push_back(std::move(program));
  }
}

}  // namespace lockstep
