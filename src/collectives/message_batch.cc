#include "lockstep/collectives/message_batch.h"

#include "lockstep/base/check.h"

namespace lockstep {

std::vector<Work> batch_isend_irecv(ProcessGroup& group,
                                    std::span<const Message> messages,
                                    const OpOptions& options) {
  LOCKSTEP_CHECK(!messages.empty(), "batch_isend_irecv got no messages: a batch has at least one");
  std::vector<Work> works;
  works.reserve(messages.size());
  for (const Message& message : messages) {
    works.push_back(message.kind == Message::Kind::kSend
                        ? group.send(message.data, message.peer, message.tag, options)
                        : group.recv(message.data, message.peer, message.tag, options));
  }
  return works;
}

}  // namespace lockstep
