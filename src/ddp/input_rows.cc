#include "lockstep/ddp/input_rows.h"

#include <algorithm>
#include <string>

#include "lockstep/base/types.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

void InputRows::begin(bool trains) {
  place_ = 0;
  trains_ = trains && recorder_->options().samples && to_int(recorder_->rank()) < kMostRanks;
}

bool InputRows::wants(const Tensor& tensor) const {
  return trains_ && tensor.shape().n_dims() > 0 && tensor.n_elems() > 0;
}

void InputRows::record(const Variable& input) {
  const std::size_t place = place_++;
  if (!input.defined() || input.requires_grad() || !wants(input.data())) return;
  if (arguments_.size() <= place) arguments_.resize(place + 1);
  Argument& argument = arguments_[place];
  if (argument.is_full()) return;
  if (argument.name == kNoName)
    argument.name = recorder_->names().intern(std::to_string(place + 1));
  record(argument, input.data());
}

void InputRows::record_target(const Tensor& target) {
  if (target_.is_full() || !wants(target)) return;
  const bool is_number = target.n_elems() == target.size(0);
  const bool is_label = is_number && !is_floating(target.dtype());
  // Labels and single numbers may be alike on all ranks; places among rows that the loss gathers may not.
  const ExchangeWatch* const watch = target.runtime().exchanges();
  const bool gathers = watch != nullptr && !watch->idle();
  if (is_label ? !gathers : is_number || !is_floating(target.dtype())) return;
  target_.name = recorder_->names().intern(kTargetArgument);
  record(target_, target);
}

void InputRows::record(Argument& argument, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  const std::int64_t n = std::min(tensor.size(0), kMostRows);
  const std::int64_t n_elems = tensor.n_elems() / tensor.size(0);
  rows_.resize(static_cast<std::size_t>(n));
  digest_rows(tensor.read_raw(), n_elems * size_of(dtype), rows_);
  argument.n_rows += n;
  argument.n_bytes += tensor.n_bytes();
  recorder_->record(
      InputEvent{.argument = argument.name, .dtype = dtype, .n_elems = n_elems, .rows = rows_},
      wrapper_);
}

}  // namespace lockstep
