// A network that alters what it carries, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/real/group/connection.h"

namespace lockstep::testing {

/// Which bit is flipped, on the rank that does it and in every operation of the program.
struct Alteration {
  enum class Where : std::uint8_t { kNowhere, kSent, kReceived };

  Where where = Where::kNowhere;
  std::int32_t rank = 0;   ///< Of the group.
  std::size_t buffer = 0;  ///< Among the inputs or outputs.
  std::int64_t element = 0;
  std::uint32_t bit = 0;  ///< From the lowest.
};

/// How often connections were made and used.
struct Traffic {
  int splits = 0;
};

/// Does what `inner` does, but for the alteration. What carries no call site is not the program's
/// and is left alone.
class AlteringConnection final : public peers::Connection {
 public:
  AlteringConnection(std::shared_ptr<peers::Connection> inner,
                     std::int32_t rank,
                     const Alteration& alteration,
                     Traffic* traffic)
      : inner_(std::move(inner)), rank_(rank), alteration_(alteration), traffic_(traffic) {}

  peers::Completion run(const peers::Operation& operation) override {
    using Where = Alteration::Where;
    const bool alters = operation.signature.site.known() && rank_ == alteration_.rank;
    peers::Operation changed = operation;
    std::vector<std::vector<std::byte>> copies;
    if (alters && alteration_.where == Where::kSent && !changed.inputs.empty()) {
      for (Memory& input : changed.inputs) {
        const auto* const first = static_cast<const std::byte*>(input.data);
        copies.emplace_back(first, first + input.count * size_of(input.dtype));
        input.data = copies.back().data();
      }
      flip(changed.inputs);
    }
    peers::Completion completion = inner_->run(changed);
    if (alters && alteration_.where == Where::kReceived) flip(operation.outputs);
    return completion;
  }

  std::unique_ptr<Message> start(const peers::Operation& operation) override {
    return std::make_unique<AlteredMessage>(*this, operation);
  }

  Result<std::int64_t> all_reduce_max(std::int64_t number, std::uint32_t tag) override {
    return inner_->all_reduce_max(number, tag);
  }

  Result<std::shared_ptr<peers::Connection>> split(const peers::Membership& member) override {
    ++traffic_->splits;
    Result<std::shared_ptr<peers::Connection>> part = inner_->split(member);
    if (!part.ok() || part.value() == nullptr) return part;
    return std::shared_ptr<peers::Connection>(std::make_shared<AlteringConnection>(
        std::move(part).value(), member.rank, alteration_, traffic_));
  }

 private:
  /// Flips on arrival.
  class AlteredMessage final : public Message {
   public:
    AlteredMessage(AlteringConnection& connection, const peers::Operation& operation)
        : connection_(&connection),
          outputs_(operation.outputs),
          inner_(connection.inner_->start(operation)) {}

    peers::Completion wait() override {
      peers::Completion completion = inner_->wait();
      const Alteration& alteration = connection_->alteration_;
      if (alteration.where == Alteration::Where::kReceived &&
          connection_->rank_ == alteration.rank) {
        connection_->flip(outputs_);
      }
      return completion;
    }

   private:
    AlteringConnection* connection_;
    std::vector<Memory> outputs_;
    std::unique_ptr<Message> inner_;
  };

  void flip(const std::vector<Memory>& memories) const {
    if (alteration_.buffer >= memories.size()) return;
    const Memory& memory = memories[alteration_.buffer];
    if (alteration_.element >= memory.count) return;
    auto* const first =
        static_cast<std::byte*>(memory.data) + alteration_.element * size_of(memory.dtype);
    first[alteration_.bit / 8] ^= std::byte{1} << (alteration_.bit % 8);
  }

  std::shared_ptr<peers::Connection> inner_;
  std::int32_t rank_;
  Alteration alteration_;
  Traffic* traffic_;
};

}  // namespace lockstep::testing
