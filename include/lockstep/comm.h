// Process groups, their collectives and messages, and what is built of them.
//
//   const Tensor sum = Tensor::full(rank.runtime(), {4}, DType::kF32, 1.0);
//   const CommStatus status = rank.world().all_reduce(Memory::of(sum)).wait();
#pragma once

#include "lockstep/collectives/checked_group.h"
#include "lockstep/collectives/join.h"
#include "lockstep/collectives/message_batch.h"
#include "lockstep/collectives/monitored_barrier.h"
#include "lockstep/collectives/new_group.h"
#include "lockstep/collectives/object_collectives.h"
#include "lockstep/comm/comm_status.h"
#include "lockstep/comm/loopback_group.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/rank_context.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/comm/signature.h"
#include "lockstep/comm/work.h"
