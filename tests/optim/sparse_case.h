// Programs over sparse gradients, as tests/golden/sparse_reference.py describes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/optim/sparse_adam.h"

#include "tests/optim/optimizer_case.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {

inline std::unique_ptr<Optimizer> make_sparse_optimizer(const golden::Case& one,
                                                        const Variable& table) {
  if (one.kind != "sparse_adam") return make_optimizer(one, table);
  const SparseAdamOptions options{.lr = option(one, "lr", 1e-3),
                                  .beta1 = option(one, "beta1", 0.9),
                                  .beta2 = option(one, "beta2", 0.999),
                                  .eps = option(one, "eps", 1e-8),
                                  .maximize = option(one, "maximize", 0) != 0};
  return std::make_unique<SparseAdam>(std::vector{table}, options);
}

/// Runs one program and collects its answer.
class SparseProgram {
 public:
  explicit SparseProgram(const golden::Case& one)
      : words_(golden::words_of(one.values)),
        shape_{one.integer(1), one.integer(2)},
        dtype_(parse_enum<DType>(one.arguments.at(0)).value()),
        table_(take(shape_), true),
        optimizer_(make_sparse_optimizer(one, table_)) {}

  std::string run() {
    while (next_ < words_.size()) step(words_.at(next_++));
    for (const StateList& list : optimizer_->state()) {
      if (!list.is_count) golden::append(answer_, list.tensors[0]);
    }
    return join(answer_, " ");
  }

 private:
  Tensor take(const Shape& shape) {
    const auto n = static_cast<std::size_t>(shape.n_elems());
    std::string part;
    for (std::size_t i = 0; i < n; ++i) part += words_.at(next_++) + " ";
    return golden::WordReader(part).take(rt_, shape, dtype_);
  }

  std::int64_t integer() { return parse_int(words_.at(next_++)).value(); }

  void add(const Variable& term) { loss_ = loss_.defined() ? lockstep::add(loss_, term) : term; }

  void use() {
    const std::int64_t padding = integer();
    const std::int64_t n = integer();
    std::vector<double> rows;
    for (std::int64_t i = 0; i < n; ++i) rows.push_back(static_cast<double>(integer()));
    const Tensor indices = Tensor::of(rt_, {n}, DType::kI64, rows);
    const Variable factor(take({n, shape_[1]}));
    add(sum(mul(embedding(table_, indices, padding, true), factor)));
  }

  void step(const std::string& word) {
    if (word == "use") use();
    if (word == "dense") add(sum(mul(table_, Variable(take(shape_)))));
    if (word == "back") {
      loss_.backward();
      loss_ = Variable();
    }
    if (word == "step") optimizer_->step();
    if (word == "none" || word == "zero") optimizer_->zero_grad(word == "none");
    if (word == "show") show();
  }

  void show() {
    if (const Ref<SparseRows>& rows = table_.state().sparse_grad) {
      answer_.insert(answer_.end(), {"s", std::to_string(rows->n_entries())});
      for (std::int64_t i = 0; i < rows->n_entries(); ++i) {
        answer_.push_back(std::to_string(rows->indices().data<std::int64_t>()[i]));
      }
      golden::append(answer_, rows->values());
    } else if (table_.grad().defined()) {
      answer_.emplace_back("d");
      golden::append(answer_, table_.grad());
    } else {
      answer_.emplace_back("-");
    }
    golden::append(answer_, table_.data());
  }

  lockstep::testing::PlainRuntime rt_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  Shape shape_;
  DType dtype_;
  Variable table_;
  std::unique_ptr<Optimizer> optimizer_;
  Variable loss_;
  std::vector<std::string> answer_;
};

}  // namespace lockstep::optim
