#include "lockstep/hooks/hook_catalog.h"

#include <string>

#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/hooks/power_sgd_hook.h"
#include "lockstep/hooks/quantization_hooks.h"

namespace lockstep {

Result<std::unique_ptr<CommHook>> make_comm_hook(std::string_view name, ProcessGroup& group) {
  using Hook = std::unique_ptr<CommHook>;
  if (name == "allreduce") return Hook(std::make_unique<AllReduceHook>(group));
  if (name == "fp16") return Hook(std::make_unique<CompressHook>(group, DType::kF16));
  if (name == "bf16") return Hook(std::make_unique<CompressHook>(group, DType::kBF16));
  if (name == "noop") return Hook(std::make_unique<NoopHook>());
  if (name == "quantize-per-tensor") return Hook(std::make_unique<QuantizePerTensorHook>(group));
  if (name == "quantize-per-channel") return Hook(std::make_unique<QuantizePerChannelHook>(group));
  if (name == "powersgd") {
    return Hook(std::make_unique<PowerSgdHook>(group, PowerSgdOptions{}));
  }
  if (name == "batched-powersgd") {
    return Error{
        "the batched PowerSGD hook fails in PyTorch at its first compressed iteration "
        "(it orthogonalizes a matrix with a routine for stacks of matrices): use 'powersgd'",
        ""};
  }
  return Error{"unknown communication hook '" + std::string(name) + "'", ""};
}

}  // namespace lockstep
