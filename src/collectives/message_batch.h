// Several sends and recvs posted together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// One message of a batch.
struct Message {
  /// In which direction.
  enum class Kind : std::uint8_t { kSend, kRecv };

  Kind kind = Kind::kSend;
  Memory data{};
  std::int32_t peer = 0;  ///< Group rank of the other side.
  std::int32_t tag = 0;
};

/// Posts all of them and returns one work per message, in their order.
/// Requires: at least one message.
/// Source: torch.distributed.batch_isend_irecv on CPU tensors.
std::vector<Work> batch_isend_irecv(ProcessGroup& group,
                                    std::span<const Message> messages,
                                    const OpOptions& options = {.site = CallSite::here()});

}  // namespace lockstep
