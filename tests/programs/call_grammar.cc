#include "tests/programs/call_grammar.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "lockstep/base/text.h"

namespace lockstep::programs {

namespace {

// A parameter or buffer, by the name that the layer's place gives it.
struct Named {
  std::int64_t id = 0;  // Of the tensor: a tied weight is listed under each of its names.
  std::string name;
  std::string dtype;
  std::int64_t n_elems = 0;
  std::int64_t n_dims = 1;
  bool trained = true;
  std::int64_t sparse_width = 0;  // Of a table whose gradient lists rows.
};

struct Model {
  std::vector<Named> parameters;
  std::vector<Named> buffers;
  std::vector<Named> weights;  // Of linear layers, in order.

  void add(Named parameter) {
    parameter.id = static_cast<std::int64_t>(parameters.size());
    parameters.push_back(std::move(parameter));
  }

  void tie(const Named& weight, const std::string& name) {
    parameters.push_back(weight);
    parameters.back().name = name;
  }
};

bool lists(const std::vector<Named>& parameters, std::int64_t id) {
  return std::any_of(
      parameters.begin(), parameters.end(), [id](const Named& one) { return one.id == id; });
}

void add_layer(Model& model, const Layer& layer, const std::string& prefix, const std::string& f) {
  if (layer.kind == 'L') {
    if (layer.tied < 0) {
      model.add({0, prefix + ".weight", f, layer.in * layer.out, 2, !layer.frozen});
    } else {
      model.tie(model.weights[static_cast<std::size_t>(layer.tied)], prefix + ".weight");
    }
    model.weights.push_back(model.parameters.back());
    if (layer.bias) model.add({0, prefix + ".bias", f, layer.out});
  } else if (layer.kind == 'S') {
    Named table{0, prefix + ".weight", f, layer.in * layer.out, 2};
    table.sparse_width = layer.out;
    model.add(table);
  } else if (layer.kind == 'N') {
    model.add({0, prefix + ".weight", f, layer.out});
    model.add({0, prefix + ".bias", f, layer.out});
    model.buffers.push_back({0, prefix + ".running_mean", f, layer.out});
    model.buffers.push_back({0, prefix + ".running_var", f, layer.out});
    model.buffers.push_back({0, prefix + ".num_batches_tracked", "i64", 1});
  } else if (layer.kind == 'P') {
    model.buffers.push_back({0, prefix + ".seen", f, 1});
    model.buffers.push_back({0, prefix + ".count", "i64", 1});
  }
}

Model model_of(const Program& program) {
  Model model;
  for (const Branch& branch : program.branches) {
    const Layer& first = branch.layers.front();
    if (first.kind == 'W') {
      model.add({0, "w", std::string(name_of(branch.dtype)), first.out});
    }
  }
  for (std::size_t k = 0; k < program.branches.size(); ++k) {
    const Branch& branch = program.branches[k];
    for (std::size_t i = 0; i < branch.layers.size(); ++i) {
      add_layer(model,
                branch.layers[i],
                "b" + std::to_string(k) + ".l" + std::to_string(i),
                std::string(name_of(branch.dtype)));
    }
  }
  return model;
}

using Totals = std::map<std::string, std::int64_t>;

class Reader {
 public:
  Reader(const Program& program, const std::vector<std::string>& calls)
      : program_(&program), calls_(&calls) {
    const Model model = model_of(program);
    std::vector<Named> seen;
    for (const Named& one : model.parameters) {
      // State is known by its first name alone, the reduction by any.
      if (!lists(seen, one.id) && !ignores(one.name)) state_.push_back(one);
      seen.push_back(one);
      const bool of_root = one.name.find('.') == std::string::npos;
      const bool ignored = ignores(of_root ? "." + one.name : one.name);
      if (one.trained && !ignored && !lists(reduced_, one.id)) reduced_.push_back(one);
    }
    for (const Named& one : model.buffers) {
      if (!ignores(one.name)) buffers_.push_back(one);
    }
    if (program.broadcast) state_.insert(state_.end(), buffers_.begin(), buffers_.end());
  }

  struct Stop {
    std::string why;
  };

  void all() {
    constructor();
    if (program_->join.empty()) {
      for (const char letter : program_->steps) step(letter);
    } else {
      joined();
    }
    if (at_ < calls_->size()) stop("more calls than the job makes");
  }

  bool ran_out() const { return at_ >= calls_->size(); }

 private:
  [[noreturn]] void stop(const std::string& why) const {
    throw std::invalid_argument("call " + std::to_string(at_) + ": " + why +
                                (ran_out() ? ", but none is left" : ", not " + (*calls_)[at_]));
  }

  bool ignores(const std::string& name) const {
    const std::vector<std::string>& names = program_->ignored;
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  bool searches() const { return program_->find_unused && !program_->static_graph; }

  std::int64_t n_parameters() const { return static_cast<std::int64_t>(reduced_.size()); }

  void expect(const std::string& op, const std::string& dtype, std::int64_t n) {
    const std::string call = op + " " + dtype + " " + std::to_string(n);
    if (ran_out() || (*calls_)[at_] != call) stop("expected " + call);
    ++at_;
  }

  // One broadcast a dtype, in the order in which dtypes first appear.
  void coalesced(const std::vector<Named>& variables, std::int32_t root) {
    std::set<std::string> sent;
    for (const Named& one : variables) {
      if (!sent.insert(one.dtype).second) continue;
      std::int64_t n = 0;
      for (const Named& other : variables) n += other.dtype == one.dtype ? other.n_elems : 0;
      expect("B" + std::to_string(root), one.dtype, n);
    }
  }

  void constructor() {
    expect("AG", "i64", 1);
    std::int64_t n_dims = 0;
    for (const Named& one : reduced_) n_dims += one.n_dims;
    expect("B0", "i64", 2 * n_dims);
    coalesced(state_, 0);
  }

  void forward(bool grad, std::int32_t buffer_root) {
    if (grad && rebuild_is_due()) {
      expect("B0", "i32", n_parameters() + 1);
      if (ran_out() || !(*calls_)[at_].starts_with("B0 i32 ")) stop("expected lengths of buckets");
      n_buckets_ = static_cast<std::size_t>(parse_int((*calls_)[at_++].substr(7)).value());
      rebuilt_ = true;
      buckets_.clear();
    }
    if (!program_->broadcast || buffers_.empty() || !buffers_due_) return;
    if (!program_->join.empty()) expect("ARmax", "i64", 1);
    coalesced(buffers_, buffer_root);
  }

  bool rebuild_is_due() const {
    return !searches() && !rebuilt_ && n_reductions_ >= (program_->static_graph ? 2 : 1);
  }

  Totals totals() const {
    Totals totals;
    for (const Named& one : reduced_) {
      if (one.sparse_width == 0) totals[wire(one.dtype)] += one.n_elems;
    }
    return totals;
  }

  std::string wire(const std::string& dtype) const {
    return program_->hook.ends_with("fp16") ? "f16" : dtype;
  }

  // How many buckets there must be; 0 = as many as the first backward.
  std::size_t n_expected() const {
    if (rebuilt_) return n_buckets_;
    if (searches()) return buckets_.size();
    std::set<std::string> kinds;
    for (const Named& one : reduced_) {
      kinds.insert(one.sparse_width == 0 ? one.dtype : one.name);
    }
    return kinds.size();
  }

  std::vector<std::string> tables() const {
    std::vector<std::string> tables;
    for (const Named& one : reduced_) {
      if (one.sparse_width > 0)
        tables.push_back(one.dtype + " " + std::to_string(one.sparse_width));
    }
    return tables;
  }

  bool at_table() const { return !ran_out() && (*calls_)[at_] == "AG i64 9"; }

  // Shapes of lists, their rows, the same number of value rows: any number, of one of `tables`.
  std::string table(const std::vector<std::string>& tables) {
    expect("AG", "i64", 9);
    if (ran_out() || !(*calls_)[at_].starts_with("AG i64 ")) stop("expected a list of rows");
    const std::int64_t n = parse_int((*calls_)[at_++].substr(7)).value();
    for (const std::string& one : tables) {
      const std::vector<std::string_view> words = split(one, ' ');
      const std::int64_t n_values = n * parse_int(words[1]).value();
      if (!ran_out() &&
          (*calls_)[at_] == "AG " + std::string(words[0]) + " " + std::to_string(n_values)) {
        ++at_;
        return one;
      }
    }
    stop("expected the values of as many rows");
  }

  void buckets() {
    if (program_->hook == "noop") return;
    if (!buckets_.empty()) {
      for (const std::string& call : buckets_) {
        if (call.starts_with("f")) {
          table({call});
          continue;
        }
        if (ran_out() || (*calls_)[at_] != call) stop("expected " + call + ", as before");
        ++at_;
      }
      return;
    }
    const std::size_t n = n_expected();
    Totals left = totals();
    std::vector<std::string> tables_left = tables();
    while (!left.empty() || !tables_left.empty()) {
      if (at_table() && !tables_left.empty()) {
        buckets_.push_back(table(tables_left));
        tables_left.erase(std::find(tables_left.begin(), tables_left.end(), buckets_.back()));
        continue;
      }
      if (ran_out()) stop("expected a bucket");
      const std::vector<std::string_view> words = split((*calls_)[at_], ' ');
      const std::string dtype(words[1]);
      const std::int64_t size = parse_int(words[2]).value();
      if (words[0] != "AR" || left.count(dtype) == 0 || left[dtype] < size) {
        stop("expected a bucket of what is left");
      }
      if ((left[dtype] -= size) == 0) left.erase(dtype);
      buckets_.push_back((*calls_)[at_++]);
    }
    if (n != 0 && buckets_.size() != n) stop("another number of buckets than agreed on");
  }

  void backward() {
    const bool is_first = program_->static_graph && n_reductions_ == 0;
    if (is_first) expect("AR", "i32", n_parameters());
    buckets();
    if (searches()) expect("AR", "i32", n_parameters());
    ++n_reductions_;
  }

  void step(char letter) {
    if (letter == 'i') return;
    const bool syncs = std::string_view("sbtrE").find(letter) != std::string_view::npos;
    for (int n = letter == 't' ? 2 : 1; n > 0; --n) {
      forward(letter != 'e', 0);
      buffers_due_ = syncs;
    }
    if (syncs && letter != 'E') backward();
  }

  // The largest rank with inputs left. Requires: there is one.
  std::int32_t largest_active(std::int64_t iteration) const {
    std::int32_t largest = -1;
    for (std::int32_t rank = 0; rank < program_->world; ++rank) {
      if (program_->join[static_cast<std::size_t>(rank)] > iteration) largest = rank;
    }
    return largest;
  }

  void joined() {
    const std::vector<std::int64_t>& lengths = program_->join;
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (std::int64_t i = 0; i < longest; ++i) {
      const char letter = program_->steps[static_cast<std::size_t>(i) % program_->steps.size()];
      expect("AR", "f32", 1);
      if (program_->throws) expect("AR", "f32", 1);
      forward(true, largest_active(i));
      expect("AR", "f32", 1);
      buffers_due_ = letter == 's';
      if (letter == 's') backward();
    }
    expect("AR", "f32", 1);
    expect("ARmax", "i64", 1);
    coalesced(state_, largest_active(longest - 1));
  }

  const Program* program_;
  const std::vector<std::string>* calls_;
  std::vector<Named> state_;    // Parameters, then the buffers that are broadcast.
  std::vector<Named> reduced_;  // What the reducer has.
  std::vector<Named> buffers_;
  std::vector<std::string> buckets_;  // Of the backwards so far, since the last rebuild.
  std::size_t at_ = 0;
  std::size_t n_buckets_ = 0;
  std::int64_t n_reductions_ = 0;
  bool rebuilt_ = false;
  bool buffers_due_ = true;
};

}  // namespace

std::string violation(const Program& program,
                      const std::vector<std::string>& calls,
                      bool ended_early) {
  Reader reader(program, calls);
  try {
    reader.all();
  } catch (const std::invalid_argument& e) {
    return ended_early && reader.ran_out() ? "" : e.what();
  }
  return "";
}

}  // namespace lockstep::programs
