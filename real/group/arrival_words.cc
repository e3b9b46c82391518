#include "lockstep/real/group/detail/arrival_words.h"

#include <bit>
#include <fmt/core.h>

#include "lockstep/base/half.h"
#include "lockstep/comm/signature.h"

namespace lockstep::peers {

namespace {

std::string number_of(std::uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::kF64:
      return fmt::format("{}", std::bit_cast<double>(bits));
    case DType::kF16:
      return fmt::format("{}", from_f16(static_cast<std::uint16_t>(bits)));
    case DType::kBF16:
      return fmt::format("{}", from_bf16(static_cast<std::uint16_t>(bits)));
    case DType::kI8:
      return std::to_string(static_cast<std::int8_t>(bits));
    case DType::kI32:
      return std::to_string(static_cast<std::int32_t>(bits));
    case DType::kI64:
      return std::to_string(static_cast<std::int64_t>(bits));
    case DType::kU8:
    case DType::kBool:
      return std::to_string(bits);
  }
  return {};
}

// The bits too: an altered one is easier to see there, and NaN and zero have several.
std::string value_words(std::uint64_t bits, DType dtype) {
  return fmt::format("{} (0x{:0{}x})", number_of(bits, dtype), bits, 2 * size_of(dtype));
}

}  // namespace

std::string rank_words(std::int32_t group_rank, const Membership& member) {
  return fmt::format("rank {}", member.world_ranks[static_cast<std::size_t>(group_rank)]);
}

std::string call_words(const Operation& operation, const Membership& member) {
  std::string words =
      fmt::format("{} {} of group {}", name_of(operation.signature.op), operation.tag, member.id);
  const std::string site = describe(operation.signature.site);
  return site.empty() ? words : words + " (" + site + ")";
}

std::string altered_words(const AlteredElement& altered,
                          DType dtype,
                          const Operation& operation,
                          const Membership& member) {
  const std::string receiver = rank_words(altered.receiver, member);
  const std::string got = value_words(altered.got, dtype);
  const std::string sent = value_words(altered.sent, dtype);
  const std::string difference =
      altered.reduced
          ? fmt::format("{} has {} as element {}, the contributions of all ranks give {}",
                        receiver,
                        got,
                        altered.element,
                        sent)
          : fmt::format("{} got {} as element {} from {}, which sent {}",
                        receiver,
                        got,
                        altered.element,
                        rank_words(altered.sender, member),
                        sent);
  return fmt::format(
      "what arrived is not what was sent in {}: {}", call_words(operation, member), difference);
}

}  // namespace lockstep::peers
