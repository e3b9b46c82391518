#include "lockstep/base/host.h"

namespace lockstep {

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

Outcome FileSystem::publish(std::string_view path, std::string_view bytes) {
  const std::string temporary = std::string(path) + ".part";
  Outcome outcome = write(temporary, bytes);
  if (outcome.ok()) outcome = sync(temporary);
  if (!outcome.ok()) {
    (void)remove(temporary);  // The first misfortune is the one to tell.
    return outcome;
  }
  outcome = rename(temporary, path);
  return outcome.ok() ? sync(folder_of(path)) : outcome;
}

}  // namespace lockstep
