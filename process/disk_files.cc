#include "lockstep/process/disk_files.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace lockstep {

Result<std::string> DiskFiles::read(std::string_view path) {
  const std::string name(path);
  std::error_code code;
  if (std::filesystem::is_directory(name, code)) return Error{"this is a folder, not a file", name};
  std::ifstream file(name, std::ios::binary);
  if (!file) return Error{"cannot read this file", name};
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return Error{"cannot read this file", name};
  return text.str();
}

Outcome DiskFiles::publish(std::string_view path, std::string_view bytes) {
  const std::string name(path);
  const std::string temporary = name + ".part";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return Error{"cannot write this file", name};
  std::error_code code;
  std::filesystem::rename(temporary, name, code);
  if (code) return Error{"cannot write this file: " + code.message(), name};
  return success();
}

}  // namespace lockstep
