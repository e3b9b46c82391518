#include "tests/programs/drawing.h"

#include <algorithm>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep::programs {

namespace {

class RandomDraws {
 public:
  RandomDraws(std::uint64_t seed, std::int64_t index) : seed_(seed), index_(index) {}

  std::int64_t below(std::int64_t n) {
    const std::uint64_t word = draw(seed_, "dice", {index_, n_++});
    return static_cast<std::int64_t>(word % static_cast<std::uint64_t>(n));
  }

  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + below(last - first + 1);
  }

  bool chance(std::int64_t percent) { return below(100) < percent; }

  std::string one_of(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(below(static_cast<std::int64_t>(words.size())))];
  }

 private:
  std::uint64_t seed_;
  std::int64_t index_;
  std::int64_t n_ = 0;
};

// What kind of jobs there are. A rank may only differ from the others where DDP can cope.
enum class Theme : std::uint8_t { kPlain, kSearch, kStatic, kJoin, kError, kConstruction };

struct Linears {
  std::vector<Layer> layers;
  std::vector<std::string> names;
  std::vector<DType> dtypes;
};

class Drawing {
 public:
  Drawing(std::uint64_t seed, std::int64_t index, std::int32_t max_world) : dice_(seed, index) {
    program_.seed = static_cast<std::uint64_t>(dice_.below(1'000'000));
    program_.world = static_cast<std::int32_t>(dice_.between(max_world > 4 ? 1 : 2, max_world));
    const std::int64_t roll = dice_.below(100);
    theme_ = roll < 30   ? Theme::kPlain
             : roll < 55 ? Theme::kSearch
             : roll < 72 ? Theme::kStatic
             : roll < 88 ? Theme::kJoin
             : roll < 96 ? Theme::kError
                         : Theme::kConstruction;
  }

  Program all() {
    program_.rows = dice_.between(1, 3);
    program_.in = dice_.between(1, 4);
    options();
    branches();
    steps();
    if (theme_ == Theme::kJoin) join();
    if (theme_ == Theme::kConstruction) {
      program_.flaw = dice_.one_of({"frozen", "extra", "devices"});
      if (program_.world == 1) program_.flaw = "frozen";
    }
    if (theme_ == Theme::kError) error();
    ignored();
    if (dice_.chance(15)) sparse();
    return program_;
  }

 private:
  bool is_searching() const { return program_.find_unused && !program_.static_graph; }

  void options() {
    program_.static_graph =
        theme_ == Theme::kStatic || (theme_ == Theme::kError && dice_.chance(40));
    program_.find_unused = theme_ == Theme::kSearch ||
                           (theme_ == Theme::kJoin && dice_.chance(40)) ||
                           (theme_ == Theme::kStatic && dice_.chance(20)) ||
                           (theme_ == Theme::kError && dice_.chance(30));
    program_.view = dice_.chance(40);
    // Views of buckets that were launched and never waited for hold whatever arrived by then.
    if (theme_ == Theme::kError) program_.view = false;
    program_.broadcast = dice_.chance(75);
    if (dice_.chance(75)) {
      program_.cap_bytes = dice_.between(1, 120);
      program_.first_bytes = dice_.chance(50) ? dice_.between(1, 60) : 1'048'576;
    }
    program_.zero = dice_.one_of({"none", "none", "zero", "keep"});
    if (dice_.chance(30)) {
      program_.hook =
          dice_.one_of({"allreduce", "fp16", "noop", "builtin-allreduce", "builtin-fp16"});
    }
  }

  void branches() {
    const std::int64_t n = dice_.between(1, 4);
    const bool two_dtypes = dice_.chance(35);
    for (std::int64_t k = 0; k < n; ++k) {
      Branch branch;
      if (two_dtypes ? dice_.chance(50) : dice_.chance(0)) branch.dtype = DType::kF64;
      chain(branch, k == 0);
      if (k > 0) branch.use = use();
      if (k > 0 && program_.find_unused && dice_.chance(25)) branch.loss = "drop";
      if (k > 0 && is_searching() && dice_.chance(10)) branch.loss = "flip";
      if (program_.static_graph) branch.loss = "out";
      if (k > 0 && !is_searching() && dice_.chance(15)) branch.loss = "hide";
      program_.branches.push_back(branch);
    }
    if (dice_.chance(25)) {
      Branch root;
      root.layers.push_back({.kind = 'W', .out = dice_.between(1, 6)});
      root.use = use();
      program_.branches.push_back(root);
    }
  }

  std::string use() {
    if (is_searching()) {
      return dice_.one_of({"all", "never", "rank0", "others", "odd", "even", "first", "later"});
    }
    if (program_.static_graph && theme_ == Theme::kStatic) {
      return dice_.one_of({"all", "never", "rank0", "others"});
    }
    return "all";
  }

  void chain(Branch& branch, bool trainable) {
    std::int64_t width = program_.in;
    const std::int64_t n = dice_.between(1, 3);
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0 && dice_.chance(60)) branch.layers.push_back({.kind = 'R'});
      if (dice_.chance(15)) branch.layers.push_back({.kind = 'P'});
      if (dice_.chance(15)) branch.layers.push_back({.kind = 'N', .out = width});
      Layer layer{.in = width, .out = dice_.between(1, 4)};
      layer.bias = dice_.chance(60);
      layer.frozen = !(trainable && i == 0) && dice_.chance(15);
      tie(layer, branch.dtype);
      linears_.names.push_back("b" + std::to_string(program_.branches.size()) + ".l" +
                               std::to_string(branch.layers.size()) + ".weight");
      branch.layers.push_back(layer);
      linears_.layers.push_back(layer);
      linears_.dtypes.push_back(branch.dtype);
      width = layer.out;
    }
  }

  // Sometimes the weight of an earlier layer that takes as many inputs.
  void tie(Layer& layer, DType dtype) {
    if (!dice_.chance(20)) return;
    for (std::size_t i = 0; i < linears_.layers.size(); ++i) {
      const Layer& other = linears_.layers[i];
      if (other.in != layer.in || linears_.dtypes[i] != dtype || other.frozen) continue;
      layer.out = other.out;
      layer.frozen = false;
      layer.tied = static_cast<std::int32_t>(i);
      return;
    }
  }

  bool has_batch_norm() const {
    for (const Branch& branch : program_.branches) {
      for (const Layer& layer : branch.layers) {
        if (layer.kind == 'N') return true;
      }
    }
    return false;
  }

  void steps() {
    std::string letters = "sssnneEbtriN";
    if (has_batch_norm())
      letters = "sssnneEbriN";  // Broadcasts break the graph of a first forward.
    if (program_.static_graph) letters = "sssne";
    if (theme_ == Theme::kJoin) letters = "sssn";
    if (theme_ == Theme::kError || program_.hook == "noop") letters = "sssn";
    const std::int64_t n = dice_.between(3, 6);
    program_.steps.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      program_.steps +=
          letters[static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(letters.size())))];
    }
    // Its second backward counts as use; a rank whose gradient is then thrown away fails alone.
    if (is_searching() && program_.zero == "none") {
      std::replace(program_.steps.begin(), program_.steps.end(), 'r', 's');
    }
    // A forward that was not differentiated leaves DDP listening, to whatever comes next.
    bool listens = false;
    for (char& letter : program_.steps) {
      if (listens && std::string_view("nNi").find(letter) != std::string_view::npos) letter = 's';
      if (letter == 'E') listens = true;
      if (std::string_view("sbtr").find(letter) != std::string_view::npos) listens = false;
    }
    // In a static graph the first two reductions may not be apart: see docs/conformance.md. A rank
    // that runs out of inputs before it reduced would send uninitialised memory.
    if (program_.static_graph || theme_ == Theme::kError) program_.steps.replace(0, 2, "ss");
    if (theme_ == Theme::kJoin) program_.steps[0] = 's';
  }

  void join() {
    for (std::int32_t rank = 0; rank < program_.world; ++rank) {
      program_.join.push_back(dice_.between(program_.find_unused ? 1 : 0, 4));
    }
    program_.divide_initial = dice_.chance(50);
    program_.throws = dice_.chance(15);
  }

  // A model that fails on every rank in the same call.
  void error() {
    Branch& bad = program_.branches.emplace_back();
    bad.layers.push_back({.in = program_.in, .out = 2, .bias = true});
    for (Branch& branch : program_.branches) {
      branch.use = "all";
      branch.loss = "out";
    }
    if (is_searching()) {
      bad.loss = "hide";
    } else if (program_.static_graph) {
      bad.use = dice_.one_of({"even", "first", "later"});
    } else if (dice_.chance(30)) {
      bad.loss = "drop";
    } else {
      bad.use = dice_.one_of({"never", "even", "first"});
    }
  }

  // Whether the only branch that every rank uses in every step keeps a parameter that DDP reduces,
  // whatever weight is ignored. Where none is left, a rank's backward starts no reduction, and
  // PyTorch hangs.
  bool first_branch_has_bias() const {
    const std::vector<Layer>& layers = program_.branches.front().layers;
    return std::any_of(layers.begin(), layers.end(), [](const Layer& one) { return one.bias; });
  }

  void ignored() {
    if (!dice_.chance(20)) return;
    const bool has_root = program_.branches.back().layers.front().kind == 'W';
    std::vector<std::string> names = {"b0.l0.bias", "b0.l1.running_mean", "b0.l0.seen"};
    for (std::size_t i = 0; i < linears_.layers.size(); ++i) {
      const std::int32_t tied = linears_.layers[i].tied;
      if (tied < 0 && i > 0) names.push_back(linears_.names[i]);
      if (tied < 0) continue;
      // One of two names, or both.
      const std::string& first = linears_.names[static_cast<std::size_t>(tied)];
      names.insert(names.end(), {linears_.names[i], first});
      if (first_branch_has_bias()) names.push_back(first + "," + linears_.names[i]);
    }
    if (has_root) names = {"w", ".w"};
    const std::string drawn = dice_.one_of(names);
    for (const std::string_view name : split(drawn, ',')) {
      program_.ignored.emplace_back(name);
    }
    if (has_root && dice_.chance(50)) program_.ignored = names;
  }

  // A table whose gradient is sparse. It must be used everywhere, and PyTorch cannot shadow it. A
  // gather that is never waited for leaves its gradient in whatever state it has reached.
  void sparse() {
    if (theme_ == Theme::kJoin || theme_ == Theme::kError || program_.flaw != "none" ||
        program_.hook != "none")
      return;
    Branch& branch = program_.branches.emplace_back();
    const std::int64_t width = dice_.between(1, 3);
    branch.layers.push_back({.kind = 'S', .in = dice_.between(2, 5), .out = width});
    if (dice_.chance(50)) branch.layers.push_back({.in = width, .out = 2, .bias = true});
    if (dice_.chance(30)) branch.dtype = program_.branches.front().dtype;
  }

  RandomDraws dice_;
  Theme theme_;
  Program program_;
  Linears linears_;
};

}  // namespace

Program draw_program(std::uint64_t seed, std::int64_t index, std::int32_t max_world) {
  return Drawing(seed, index, max_world).all();
}

}  // namespace lockstep::programs
