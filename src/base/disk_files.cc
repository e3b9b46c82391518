#include "lockstep/base/disk_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>

#include "lockstep/base/read_file.h"

namespace lockstep {

namespace {

Error failure(const char* what, std::string_view path, const std::error_code& code) {
  return Error{std::string(what) + ": " + code.message(), std::string(path)};
}

std::error_code last_error() { return {errno, std::generic_category()}; }

}  // namespace

Result<std::string> DiskFiles::read(std::string_view path) { return read_file(std::string(path)); }

Outcome DiskFiles::write(std::string_view path, std::string_view bytes) {
  std::ofstream file(std::string(path), std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return failure("cannot write this file", path, last_error());
  return success();
}

Outcome DiskFiles::sync(std::string_view path) {
  const int file = ::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failure("cannot sync this file", path, last_error());
  const int result = ::fsync(file);
  const std::error_code code = last_error();
  ::close(file);
  // Some file systems cannot sync a folder, and say so.
  if (result != 0 && code.value() != EINVAL) return failure("cannot sync this file", path, code);
  return success();
}

Outcome DiskFiles::rename(std::string_view from, std::string_view to) {
  std::error_code code;
  std::filesystem::rename(from, to, code);
  if (code) return failure("cannot write this file", to, code);
  return success();
}

Outcome DiskFiles::remove(std::string_view path) {
  std::error_code code;
  const bool removed = std::filesystem::remove(path, code);
  if (code) return failure("cannot remove this file", path, code);
  if (!removed) return Error{"no such file", std::string(path)};
  return success();
}

Result<std::vector<std::string>> DiskFiles::list(std::string_view folder) {
  std::vector<std::string> names;
  std::error_code code;
  std::filesystem::directory_iterator entry(folder, code);
  if (code == std::errc::no_such_file_or_directory) return names;
  if (code) return failure("cannot list this folder", folder, code);
  while (entry != std::filesystem::directory_iterator()) {
    if (entry->is_regular_file(code)) names.push_back(entry->path().filename().string());
    entry.increment(code);
    if (code) return failure("cannot list this folder", folder, code);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Outcome DiskFiles::make_folder(std::string_view folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return failure("cannot make this folder", folder, code);
  return success();
}

}  // namespace lockstep
