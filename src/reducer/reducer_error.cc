#include "lockstep/reducer/reducer_error.h"

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

std::string explanation(const UnfinishedReduction& facts) {
  std::string text =
      "Expected to have finished reduction in the prior iteration before starting a new one. ";
  if (facts.static_graph) {
    return text +
           "This error indicates that your training graph has changed in this iteration, e.g., one "
           "parameter is used in first iteration, but then got unused in the second iteration. "
           "this is not compatible with static_graph set to True.";
  }
  text +=
      "This error indicates that your module has parameters that were not used in producing loss. ";
  text += facts.find_unused_parameters
              ? "Since `find_unused_parameters=True` is enabled, this likely  means that not all "
                "`forward` outputs participate in computing loss. You can fix this by "
              : "You can enable unused parameter detection by passing the keyword argument "
                "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and "
                "by \n";
  text +=
      "making sure all `forward` function outputs participate in calculating loss. \nIf you "
      "already have done the above, then the distributed data parallel module wasn't able to "
      "locate the output tensors in the return value of your module's `forward` function. Please "
      "include the loss function and the structure of the return value of `forward` of your module "
      "when reporting this issue (e.g. list, dict, iterable).";
  return text;
}

}  // namespace

std::string unfinished_reduction_text(const UnfinishedReduction& facts) {
  std::string text = explanation(facts);
  const std::string rank = std::to_string(facts.rank);
  if (!facts.missing_names.empty()) {
    text += "\nParameters which did not receive grad for rank " + rank + ": ";
    text += join(facts.missing_names, ", ");
  }
  text += "\nParameter indices which did not receive grad for rank " + rank + ": ";
  text += join(facts.missing, " ");
  if (facts.missing_names.empty()) {
    text +=
        "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either "
        "INFO or DETAIL to print out information about which particular parameters did not receive "
        "gradient on this rank as part of this error";
  }
  return text;
}

std::string marked_twice_text(std::size_t index, std::string_view name) {
  std::string text =
      "Expected to mark a variable ready only once. This error is caused by one of the following "
      "reasons: 1) Use of a module parameter outside the `forward` function. Please make sure "
      "model parameters are not shared across multiple concurrent forward-backward passes. or try "
      "to use _set_static_graph() as a workaround if this module graph does not change during "
      "training loop.2) Reused parameters in multiple reentrant backward passes. For example, if "
      "you use multiple `checkpoint` functions to wrap the same part of your model, it would "
      "result in the same set of parameters been used by different reentrant backward passes "
      "multiple times, and hence marking a variable ready multiple times. DDP does not support "
      "such use cases in default. You can try to use _set_static_graph() as a workaround if your "
      "module graph does not change over iterations.";
  text += "\nParameter at index " + std::to_string(index);
  if (!name.empty()) text += " with name " + std::string(name);
  text +=
      " has been marked as ready twice. This means that multiple autograd engine  hooks have fired "
      "for this particular parameter during this iteration.";
  if (name.empty()) {
    text +=
        " You can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to "
        "print parameter names for further debugging.";
  }
  return text;
}

}  // namespace lockstep
