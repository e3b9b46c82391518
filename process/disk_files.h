// Files on the real disk, behind the library's file interface.
#pragma once

#include "lockstep/base/host.h"

namespace lockstep {

class DiskFiles final : public FileSystem {
 public:
  Result<std::string> read(std::string_view path) override;
  Outcome publish(std::string_view path, std::string_view bytes) override;
};

}  // namespace lockstep
