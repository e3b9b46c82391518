// One way to run ranks as processes: how they connect, and the device their tensors live on.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/real/host/launch_environment.h"
#include "lockstep/tensor/accelerator.h"

namespace lockstep {

struct BackendOptions {
  LaunchEnvironment place;
  std::string rendezvous;                     ///< The folder in which ranks find each other.
  std::chrono::milliseconds timeout{60'000};  ///< Of the rendezvous and of every operation.
  bool check_signatures = true;               ///< Compare what ranks issue before each collective.
  bool check_arrivals = false;  ///< Compare what arrived with what was sent, after each operation.
};

/// One way to connect processes.
struct Backend {
  std::string_view name;  ///< "gloo", "nccl"
  /// Connects this rank with all others. Errors: what prevents it, as text.
  Result<std::unique_ptr<ProcessGroup>> (*connect)(const BackendOptions& options, Runtime& runtime);
  /// Why it cannot work on this machine, or empty; null: it always can.
  std::string (*obstacle)() = nullptr;
  /// The device on which a rank's tensors live and are computed, opened before `connect` is called
  /// with a runtime that has it; null: host memory and the processor.
  Result<std::unique_ptr<Accelerator>> (*open_device)(const BackendOptions& options) = nullptr;
};

/// What keeps the backend from working on this machine, in one sentence, or empty.
inline std::string obstacle_of(const Backend& backend) {
  return backend.obstacle == nullptr ? std::string() : backend.obstacle();
}

}  // namespace lockstep
