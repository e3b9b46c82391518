// Files on the real disk, through the library's file interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/host.h"

namespace lockstep {

class DiskFiles final : public FileSystem {
 public:
  Result<std::string> read(std::string_view path) override;
  Outcome write(std::string_view path, std::string_view bytes) override;
  Outcome sync(std::string_view path) override;
  Outcome rename(std::string_view from, std::string_view to) override;
  Outcome remove(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view folder) override;
  Outcome make_folder(std::string_view folder) override;
};

}  // namespace lockstep
