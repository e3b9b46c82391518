#include "lockstep/real/group/detail/checked_message.h"

#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/real/group/detail/arrival_words.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::peers {

namespace {

/// A message with its digest at its end.
class CheckedMessage final : public Connection::Message {
 public:
  CheckedMessage(Connection& connection, const Operation& operation, const Membership& member)
      : operation_(operation),
        member_(member),
        sends_(sends(operation)),
        memory_(sends_ ? operation.inputs.front() : operation.outputs.front()) {
    framed_.resize(bytes_of(memory_) + sizeof(std::uint64_t));
    if (sends_) {
      const std::uint64_t digest = digest_of(memory_);
      if (memory_.count > 0) std::memcpy(framed_.data(), memory_.data, bytes_of(memory_));
      std::memcpy(framed_.data() + bytes_of(memory_), &digest, sizeof digest);
    }
    Operation framed = operation;
    const Memory whole{framed_.data(), static_cast<std::int64_t>(framed_.size()), DType::kU8};
    (sends_ ? framed.inputs : framed.outputs) = {whole};
    framed.signature.dtype = DType::kU8;
    framed.signature.count = whole.count;
    inner_ = connection.start(framed);
  }

  Completion wait() override {
    Completion completion = inner_->wait();
    if (sends_ || completion.status != CommStatus::kOk) return completion;
    if (memory_.count > 0) std::memcpy(memory_.data, framed_.data(), bytes_of(memory_));
    std::uint64_t sent = 0;
    std::memcpy(&sent, framed_.data() + bytes_of(memory_), sizeof sent);
    const std::uint64_t got = digest_of(memory_);
    if (sent == got) return completion;
    const std::int32_t sender = completion.peer >= 0 ? completion.peer : operation_.signature.peer;
    completion.status = CommStatus::kMismatch;
    completion.detail = fmt::format(
        "what arrived is not what was sent in {}: {} got {} {} with the digest {} from {}, which "
        "sent them with the digest {}",
        call_words(operation_, member_),
        rank_words(member_.rank, member_),
        memory_.count,
        name_of(memory_.dtype),
        hex64(got),
        rank_words(sender, member_),
        hex64(sent));
    return completion;
  }

 private:
  static bool sends(const Operation& operation) {
    return operation.signature.op == CollectiveOp::kSend;
  }

  Operation operation_;
  Membership member_;
  bool sends_;
  Memory memory_;
  std::vector<std::byte> framed_;  // Before the message that uses it.
  std::unique_ptr<Connection::Message> inner_;
};

}  // namespace

std::size_t bytes_of(const Memory& memory) {
  return static_cast<std::size_t>(memory.count * size_of(memory.dtype));
}

std::uint64_t digest_of(const Memory& memory) {
  return memory.count == 0 ? 0 : sm64(memory.data, memory.count, memory.dtype);
}

std::unique_ptr<Connection::Message> start_checked_message(Connection& connection,
                                                           const Operation& operation,
                                                           const Membership& member) {
  return std::make_unique<CheckedMessage>(connection, operation, member);
}

}  // namespace lockstep::peers
