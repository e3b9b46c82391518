#include "lockstep/gpu/nccl/result_text.h"

#include <array>

namespace lockstep::nccl {

namespace {

struct Words {
  std::string_view name;
  std::string_view meaning;
};

// By number.
constexpr std::array<Words, 8> kWords = {{
    {"ncclSuccess", "it went well"},
    {"ncclUnhandledCudaError", "a CUDA call inside NCCL failed"},
    {"ncclSystemError", "a call to the system failed inside NCCL, a socket or shared memory"},
    {"ncclInternalError", "NCCL found its own state inconsistent"},
    {"ncclInvalidArgument", "NCCL refused an argument"},
    {"ncclInvalidUsage", "NCCL was used in a way it does not allow"},
    {"ncclRemoteError", "a peer's process ended or the network failed"},
    {"ncclInProgress", "it is still under way"},
}};

}  // namespace

std::string_view name_of(Status status) {
  const auto number = static_cast<std::size_t>(status);
  return number < kWords.size() ? kWords[number].name : std::string_view("unknown");
}

std::string text_of(Status status) {
  const auto number = static_cast<std::size_t>(status);
  const std::string_view meaning =
      number < kWords.size() ? kWords[number].meaning : "a result that this program does not know";
  return std::string(meaning) + " (" + std::string(name_of(status)) + ", " +
         std::to_string(static_cast<std::int32_t>(status)) + ")";
}

std::string describe(Api& api, std::string_view call, Status status, Comm comm) {
  std::string text = std::string(call) + ": " + text_of(status);
  const std::string last = api.last_error(comm);
  if (!last.empty()) text += "; NCCL says: " + last;
  return text;
}

}  // namespace lockstep::nccl
