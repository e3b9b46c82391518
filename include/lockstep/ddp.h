// DistributedDataParallel, its communication hooks, and other training across ranks.
//
//   DistributedDataParallel ddp(model, rank.world(), {.bucket_cap_mb = 1.0});
//   mse_loss(ddp(rows), targets).backward();  // Gradients are averaged over the ranks.
#pragma once

#include "lockstep/ddp/ddp.h"
#include "lockstep/ddp/ddp_logging.h"
#include "lockstep/ddp/mixed_precision.h"
#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/hooks/post_local_sgd_hook.h"
#include "lockstep/hooks/power_sgd_hook.h"
#include "lockstep/hooks/quantization_hooks.h"
#include "lockstep/hooks/step_hooks.h"
#include "lockstep/parallel/exchange_functions.h"
#include "lockstep/parallel/model_averaging.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/reducer/bucket_plan.h"
#include "lockstep/reducer/comm_hook.h"
