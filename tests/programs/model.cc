#include "tests/programs/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/functional/functions.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/linear.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::programs {

namespace {

class WidenNode final : public Node {
 public:
  void run(Tensor&& grad) override { send(0, grad.to(DType::kF32)); }
};

// tensor.double()
Variable widen(const Variable& x) {
  Ref<Node> node;
  if (Node::records({&x})) {
    node = Node::make<WidenNode>(x.runtime());
    node->connect(0, x);
  }
  return Node::attach(x.data().to(DType::kF64), std::move(node));
}

void set(const Tensor& tensor, std::int64_t i, double value) {
  if (tensor.dtype() == DType::kF32) tensor.data<float>()[i] = static_cast<float>(value);
  if (tensor.dtype() == DType::kF64) tensor.data<double>()[i] = value;
  if (tensor.dtype() == DType::kI64) {
    tensor.data<std::int64_t>()[i] = static_cast<std::int64_t>(value);
  }
}

class Linear final : public nn::Module {
 public:
  Linear(Runtime& runtime, const Layer& layer, DType dtype, const Variable& shared)
      : nn::Module(runtime) {
    weight_ =
        shared.defined()
            ? register_parameter("weight", shared)
            : register_parameter("weight", Tensor::zeros(runtime, {layer.out, layer.in}, dtype));
    if (layer.bias) {
      bias_ = register_parameter("bias", Tensor::zeros(runtime, {layer.out}, dtype));
    }
    if (layer.frozen) weight_.set_requires_grad(false);
  }

  Variable forward(const Variable& x) override { return linear(x, weight_, bias_); }

  const Variable& weight() const { return weight_; }

 private:
  Variable weight_;
  Variable bias_;
};

// Adds its buffer, which each forward moves, and counts forwards in another one.
class Plain final : public nn::Module {
 public:
  Plain(Runtime& runtime, DType dtype, std::int32_t rank) : nn::Module(runtime), rank_(rank) {
    seen_ = register_buffer("seen", Tensor::full(runtime, {1}, dtype, rank + 1.0));
    count_ = register_buffer("count", Tensor::zeros(runtime, {}, DType::kI64));
  }

  Variable forward(const Variable& x) override {
    set(seen_.data(), 0, std::floor(seen_.data().at(0) / 2.0) + rank_);
    set(count_.data(), 0, count_.data().at(0) + 1.0);
    seen_.data().storage()->bump_version();
    return add(
        x, Variable(Tensor::full(x.runtime(), x.shape(), x.data().dtype(), seen_.data().at(0))));
  }

 private:
  std::int32_t rank_;
  Variable seen_;
  Variable count_;
};

class Relu final : public nn::Module {
 public:
  using nn::Module::Module;

  Variable forward(const Variable& x) override { return relu(x); }
};

}  // namespace

class ProgramModel::Chain final : public nn::Module {
 public:
  explicit Chain(Runtime& runtime) : nn::Module(runtime) {}

  Variable forward(const Variable& x) override {
    Variable h = x;
    for (const auto& layer : layers_) h = layer->forward(h);
    return h;
  }

  template <typename Layer>
  Layer& append(std::unique_ptr<Layer> layer) {
    Layer& added = *layer;
    register_module("l" + std::to_string(layers_.size()), added);
    layers_.push_back(std::move(layer));
    return added;
  }

 private:
  std::vector<std::unique_ptr<nn::Module>> layers_;
};

class ProgramModel::Root final : public nn::Module {
 public:
  explicit Root(Runtime& runtime) : nn::Module(runtime) {}

  Variable forward(const Variable& x) override { return x; }

  void add_parameter(std::int64_t size, DType dtype) {
    w = register_parameter("w", Tensor::zeros(runtime(), {size}, dtype));
  }

  void add(std::unique_ptr<Chain> chain) {
    register_module("b" + std::to_string(chains.size()), *chain);
    chains.push_back(std::move(chain));
  }

  std::vector<std::unique_ptr<Chain>> chains;
  Variable w;
};

ProgramModel::ProgramModel(Runtime& runtime, const Program& program, std::int32_t rank)
    : runtime_(&runtime), program_(&program), rank_(rank), root_(std::make_unique<Root>(runtime)) {
  std::vector<Linear*> linears;
  for (const Branch& branch : program.branches) {
    auto chain = std::make_unique<Chain>(runtime);
    for (const Layer& layer : branch.layers) {
      if (layer.kind == 'W') root_->add_parameter(layer.out, branch.dtype);
      if (layer.kind == 'S') {
        const nn::EmbeddingOptions options{.dtype = branch.dtype, .sparse = true};
        chain->append(std::make_unique<nn::Embedding>(runtime, layer.in, layer.out, options));
      }
      if (layer.kind == 'R') chain->append(std::make_unique<Relu>(runtime));
      if (layer.kind == 'P') chain->append(std::make_unique<Plain>(runtime, branch.dtype, rank));
      if (layer.kind == 'N') {
        chain
            ->append(std::make_unique<nn::BatchNorm1d>(
                runtime, layer.out, nn::BatchNormOptions{.eps = 0.0, .dtype = branch.dtype}))
            .eval();
      }
      if (layer.kind != 'L') continue;
      const Variable shared =
          layer.tied < 0 ? Variable() : linears[static_cast<std::size_t>(layer.tied)]->weight();
      linears.push_back(
          &chain->append(std::make_unique<Linear>(runtime, layer, branch.dtype, shared)));
    }
    root_->add(std::move(chain));
  }
  std::int64_t index = 0;
  for (const NamedVariable& parameter : root_->named_parameters()) {
    const Tensor& data = parameter.variable.data();
    for (std::int64_t i = 0; i < data.n_elems(); ++i) {
      const std::uint64_t word = draw(program.seed, "initial", {rank, index, i});
      set(data, i, (static_cast<double>(word % 17) - 8.0) / 4.0);
    }
    ++index;
    if (program.flaw == "frozen") parameter.variable.set_requires_grad(false);
  }
  index = 0;
  for (const NamedVariable& buffer : root_->named_buffers()) {
    if (buffer.name.ends_with("running_var")) {
      for (std::int64_t i = 0; i < buffer.variable.data().n_elems(); ++i) {
        const std::uint64_t word = draw(program.seed, "buffer", {rank, index, i});
        set(buffer.variable.data(), i, word % 2 == 0 ? 0.25 : 4.0);
      }
    }
    ++index;
  }
}

ProgramModel::~ProgramModel() = default;

std::vector<NamedVariable> ProgramModel::named_parameters(bool remove_duplicate) const {
  return root_->named_parameters(remove_duplicate);
}

std::vector<NamedVariable> ProgramModel::named_buffers() const { return root_->named_buffers(); }

Tensor ProgramModel::drawn(const char* purpose,
                           const Shape& shape,
                           DType dtype,
                           const std::vector<std::int64_t>& words) const {
  Tensor tensor = Tensor::empty(*runtime_, shape, dtype);
  std::vector<std::int64_t> all = words;
  all.push_back(0);
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    all.back() = i;
    set(tensor, i, static_cast<double>(draw(program_->seed, purpose, all) % 5) - 2.0);
  }
  return tensor;
}

Tensor ProgramModel::drawn_rows(std::int64_t below, const std::vector<std::int64_t>& words) const {
  Tensor tensor = Tensor::empty(*runtime_, {program_->rows}, DType::kI64);
  std::vector<std::int64_t> all = words;
  all.push_back(0);
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    all.back() = i;
    const std::uint64_t word = draw(program_->seed, "rows", all);
    set(tensor, i, static_cast<double>(word % static_cast<std::uint64_t>(below)));
  }
  return tensor;
}

Outputs ProgramModel::forward(std::int64_t step, std::int64_t micro) {
  Outputs outputs;
  for (std::size_t k = 0; k < program_->branches.size(); ++k) {
    const Branch& branch = program_->branches[k];
    if (!is_used(branch, rank_, step)) continue;
    const auto number = static_cast<std::int64_t>(k);
    Variable value;
    if (branch.layers.front().kind == 'W') {
      value = mul(root_->w,
                  Variable(drawn("factor", root_->w.shape(), branch.dtype, {rank_, step, micro})));
    } else if (branch.layers.front().kind == 'S') {
      value = root_->chains[k]->forward(
          Variable(drawn_rows(branch.layers.front().in, {rank_, step, micro, number})));
    } else {
      const Shape shape{program_->rows, program_->in};
      value = root_->chains[k]->forward(
          Variable(drawn("input", shape, branch.dtype, {rank_, step, micro, number})));
    }
    std::vector<Outputs::One>& list = branch.loss == "hide" ? outputs.hidden : outputs.shown;
    list.push_back({k, std::move(value)});
  }
  return outputs;
}

Variable ProgramModel::loss(const Outputs& outputs, std::int64_t step, std::int64_t micro) const {
  std::vector<Outputs::One> all = outputs.shown;
  all.insert(all.end(), outputs.hidden.begin(), outputs.hidden.end());
  std::sort(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.branch < b.branch; });
  const bool wide = std::any_of(program_->branches.begin(),
                                program_->branches.end(),
                                [](const Branch& branch) { return branch.dtype == DType::kF64; });
  Variable total;
  for (const Outputs::One& one : all) {
    const Branch& branch = program_->branches[one.branch];
    if (!is_in_loss(branch, step)) continue;
    const Tensor factors = drawn("loss",
                                 one.value.shape(),
                                 branch.dtype,
                                 {rank_, step, micro, static_cast<std::int64_t>(one.branch)});
    Variable term = sum(mul(one.value, Variable(factors)));
    if (wide && branch.dtype == DType::kF32) term = widen(term);
    total = total.defined() ? add(total, term) : term;
  }
  return total;
}

void update(const std::vector<NamedVariable>& parameters) {
  for (const NamedVariable& parameter : parameters) {
    const Tensor& data = parameter.variable.data();
    const Tensor grad = whole_gradient(parameter.variable);
    if (!grad.defined()) continue;
    for (std::int64_t i = 0; i < data.n_elems(); ++i) {
      double next = data.at(i) - grad.at(i) * 0.125;
      if (data.dtype() == DType::kF32) {
        next = data.data<float>()[i] - grad.data<float>()[i] * 0.125F;
      }
      set(data, i, std::clamp(std::nearbyint(next * 4.0) / 4.0, -2.0, 2.0));
    }
    data.storage()->bump_version();
  }
}

}  // namespace lockstep::programs
