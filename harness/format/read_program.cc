// tensor.NAME and program: what each rank calls, written out instead of a model and a loop.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// One operation as it is written: tensors are named by what they are for.
struct OpTable : RawOp {
  std::string output;
  std::string message{kThrown};
};

void add_operands(Section<OpTable>& it) {
  it.add("tensor", &RawOp::tensor, "What it works on: what a rank gives, or receives.")
      .except({RawOpKind::kBarrier,
               RawOpKind::kWait,
               RawOpKind::kCompute,
               RawOpKind::kDecision,
               RawOpKind::kGroup,
               RawOpKind::kRepeat,
               RawOpKind::kThrow,
               RawOpKind::kExit,
               RawOpKind::kLog})
      .required()
      .stays();
  it.add("output", &OpTable::output, "Where the result goes.")
      .of({RawOpKind::kAllGather,
           RawOpKind::kGather,
           RawOpKind::kScatter,
           RawOpKind::kReduceScatter,
           RawOpKind::kAllToAll})
      .required();
  it.add("reduce", &RawOp::reduce, "How parts are combined.")
      .words({"sum", "avg", "product", "min", "max"})
      .later({"premul_sum", "band", "bor", "bxor"})
      .of({RawOpKind::kAllReduce, RawOpKind::kReduce, RawOpKind::kReduceScatter});
  it.add("root", &RawOp::root, "The rank that has the whole, below the number of ranks.")
      .links(RankLink::kRoot)
      .of({RawOpKind::kBroadcast, RawOpKind::kReduce, RawOpKind::kGather, RawOpKind::kScatter});
  it.add("peer", &RawOp::peer, "The other rank, below the number of ranks.")
      .links(RankLink::kPartner)
      .of({RawOpKind::kSend, RawOpKind::kRecv})
      .required();
  it.add("tag", &RawOp::tag, "Messages of one tag meet.")
      .of({RawOpKind::kSend, RawOpKind::kRecv})
      .counts();
}

void add_manners(Section<OpTable>& it) {
  const std::vector<RawOpKind> collectives = {RawOpKind::kAllReduce,
                                              RawOpKind::kBroadcast,
                                              RawOpKind::kReduce,
                                              RawOpKind::kAllGather,
                                              RawOpKind::kGather,
                                              RawOpKind::kScatter,
                                              RawOpKind::kReduceScatter,
                                              RawOpKind::kAllToAll,
                                              RawOpKind::kBarrier,
                                              RawOpKind::kSend,
                                              RawOpKind::kRecv};
  std::vector<std::string_view> words;
  for (const RawOpKind kind : collectives) words.push_back(name_of(kind));
  it.add("group", &RawOp::group, "The group that calls it.").shown("the world").of(words);
  it.add("async", &RawOp::work, "Returns at once; this name is what `wait` waits for.").of(words);
  words.push_back(name_of(RawOpKind::kRead));
  words.push_back(name_of(RawOpKind::kWrite));
  it.code("site", FieldType::kText, "The reported call site: `save.py:12`.")
      .shown("the line in the scenario")
      .of(words);
  it.add("work", &RawOp::work, "The name that `async` gave.").of({RawOpKind::kWait}).required();
}

void add_rest(Section<OpTable>& it) {
  it.add("ns", &RawOp::number, "Of virtual time.")
      .in_unit("ns")
      .of({RawOpKind::kCompute})
      .required()
      .counts();
  it.add("name", &RawOp::name, "Of the decision or group.")
      .of({RawOpKind::kDecision, RawOpKind::kGroup})
      .required();
  it.add("message", &OpTable::message, "What is thrown.").of({RawOpKind::kThrow});
  it.add("message", &OpTable::message, "What is logged.").of({RawOpKind::kLog}).required();
  it.add("value", &RawOp::number, "What was decided.")
      .between(INT64_MIN, TableReader::kMost)
      .of({RawOpKind::kDecision})
      .required();
  it.add("value", &RawOp::value, "Of every element.").of({RawOpKind::kWrite}).required();
  it.add("equals", &RawOp::equals, "The elements that the tensor must have.")
      .of({RawOpKind::kExpect})
      .required()
      .whole();
  it.add("times", &RawOp::times, "How often.").of({RawOpKind::kRepeat}).required().counts();
  it.code("ranks", FieldType::kRanks, "Its members; every rank calls it.")
      .of({RawOpKind::kGroup})
      .required()
      .stays();
  it.code("body", FieldType::kTables, "Operations.").of({RawOpKind::kRepeat}).required();
}

const Section<OpTable>& op_section() {
  static const Section<OpTable> section(
      "program.body",
      [](Section<OpTable>& it) {
        it.add("op", &RawOp::op, "What is done.").selects().required();
        add_operands(it);
        add_manners(it);
        add_rest(it);
      },
      SectionShape::kList);
  return section;
}

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
    const std::optional<RawOpKind> kind = parse_enum<RawOpKind>(word);
    if (!kind) {
      problem_.report(
          "unknown operation '" + word + "'" + did_you_mean(word, kEnumNames<RawOpKind>),
          table.where("op"));
      return nullptr;
    }
    OpTable given;
    op_section().read(table, given);
    given.where = op.where;
    const TomlNode* body = read_names(table, given);
    check_required(table, given);
    table.finish();
    op = std::move(given);
    return body;
  }

  /// What the table does not say of a key: which tensors and ranks there are.
  const TomlNode* read_names(TableReader& table, OpTable& given) {
    check_tensor(table, "tensor", given.tensor);
    check_tensor(table, "output", given.output);
    if (!given.output.empty()) given.name = given.output;
    for (const auto& [key, rank] : {std::pair("root", given.root), std::pair("peer", given.peer)}) {
      if (rank > 0) table.integer(key, 0, 0, scenario_.n_ranks - 1);
    }
    const bool speaks = given.op == RawOpKind::kThrow || given.op == RawOpKind::kLog;
    if (speaks) given.name = given.message;
    if (op_section().has(given, "site")) given.site = read_site(table, problem_);
    if (given.op == RawOpKind::kGroup) {
      if (const TomlNode* list = table.array("ranks")) {
        given.ranks = ranks_of(*list, scenario_.n_ranks, problem_);
      }
    }
    return given.op == RawOpKind::kRepeat ? table.array("body") : nullptr;
  }

  void check_required(TableReader& table, OpTable& given) {
    const SchemaField* missing = op_section().missing(table, given);
    if (missing == nullptr) return;
    problem_.report(
        "operation '" + std::string(name_of(given.op)) + "' needs '" + missing->key + "'",
        table.where());
  }

  void check_tensor(const TableReader& table, std::string_view key, const std::string& name) {
    if (name.empty() || scenario_.tensors.contains(name)) return;
    std::vector<std::string_view> known;
    for (const auto& [declared, tensor] : scenario_.tensors) known.push_back(declared);
    problem_.report("no tensor '" + name + "' is declared" + did_you_mean(name, known),
                    table.where(key));
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

const Section<RawTensor>& tensor_section() {
  static const Section<RawTensor> section(
      "tensor",
      [](Section<RawTensor>& it) {
        it.add("dtype", &RawTensor::dtype, "Of its elements.");
        it.add("shape", &RawTensor::shape, "One to four sizes.").shown("1").counts();
        it.code("fill", FieldType::kAny, "`\"rank+1\"`, a number or a list of values.")
            .shown("\"rank+1\"");
        it.add("values", &RawTensor::values, "Its elements.");
        it.add("by_rank", &RawTensor::by_rank, "Its elements on each rank.");
      },
      SectionShape::kNamed);
  return section;
}

/// The keys of a tensor that is a part of another one.
const Section<RawTensor>& view_section() {
  static const Section<RawTensor> section(
      "tensor",
      [](Section<RawTensor>& it) {
        it.add("view",
               &RawTensor::view,
               "It is a part of this tensor's memory, and has only the keys below.");
        it.add("offset", &RawTensor::offset, "With `view`: where it begins, in elements.");
        it.add("shape", &RawTensor::shape, "With `view`: its sizes.").shown("1").counts();
      },
      SectionShape::kNamed);
  return section;
}

/// One to four positive sizes that memory has room for.
void check_shape(const TableReader& table, RawTensor& tensor) {
  const bool positive =
      std::all_of(tensor.shape.begin(), tensor.shape.end(), [](auto size) { return size > 0; });
  if (!positive || tensor.shape.size() > 4) {
    table.problem().report("a shape is one to four positive sizes", table.where("shape"));
  } else if (!is_affordable(tensor.shape)) {
    table.problem().report("a tensor has at most 2^31 elements", table.where("shape"));
  } else {
    return;
  }
  tensor.shape = {1};
}

void read_fill(TableReader& table, RawTensor& tensor) {
  const TomlNode* fill = table.node("fill");
  if (fill == nullptr) return;
  if (fill->is_number()) {
    tensor.fill = fill->number;
  } else if (fill->is_array()) {
    if (!table.has("values")) {
      tensor.values = numbers_of(*fill, table.path("fill"), table.problem());
    }
  } else if (fill->text != "rank+1") {
    table.problem().report("'fill' is \"rank+1\", a number or a list of values", fill->where);
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
  tensor.shape = {1};
  if (table.has("view")) {
    view_section().read(table, tensor);
    table.finish();
    return tensor;
  }
  tensor_section().read(table, tensor);
  check_shape(table, tensor);
  read_fill(table, tensor);
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

struct ProgramTable {};

const Section<ProgramTable>& program_section() {
  static const Section<ProgramTable> section(
      "program",
      [](Section<ProgramTable>& it) {
        it.code("ranks", FieldType::kRanks, "Those that run it.").shown("all").stays();
        it.code("body", FieldType::kTables, "Operations, one after the other.").required();
      },
      SectionShape::kList);
  return section;
}

}  // namespace

std::vector<SchemaSection> program_sections() {
  return {tensor_section().described(),
          view_section().described(),
          program_section().described(),
          op_section().described()};
}

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
    TableReader table(node, program_section().name(), problem);
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
