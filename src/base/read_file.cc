#include "lockstep/base/read_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

namespace lockstep {
namespace {

Error unreadable(int code, const std::string& path) {
  if (code == EISDIR) return Error{"this is a folder, not a file", path};
  return Error{"cannot read this file: " + std::generic_category().message(code), path};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const auto close = [](std::FILE* file) { static_cast<void>(std::fclose(file)); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rbe"), close);
  if (file == nullptr) return unreadable(errno, path);
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const std::size_t n_read = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), n_read);
    if (n_read == part.size()) continue;
    if (std::ferror(file.get()) != 0) return unreadable(errno, path);
    return text;
  }
}

}  // namespace lockstep
