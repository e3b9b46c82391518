#include "lockstep/base/disk_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <memory>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "lockstep/memory/memory_left.h"

namespace lockstep {

namespace {

Error failure(const char* what, std::string_view path, const std::error_code& code) {
  return Error{std::string(what) + ": " + code.message(), std::string(path)};
}

std::error_code last_error() { return {errno, std::generic_category()}; }

Error unreadable(int code, const std::string& path) {
  if (code == EISDIR) return Error{"this is a folder, not a file", path};
  return Error{"cannot read this file: " + std::generic_category().message(code), path};
}

constexpr const char* kCannotWrite = "cannot write this file";

// An open file that closes itself; close() says whether everything arrived.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}

  ~OpenFile() {
    if (number_ >= 0) ::close(number_);
  }

  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  OpenFile(OpenFile&&) = delete;
  OpenFile& operator=(OpenFile&&) = delete;

  bool is_open() const { return number_ >= 0; }

  int number() const { return number_; }

  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(number_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

/// Writes to what is there, or to a new file.
Outcome write_in_place(const std::string& path, std::string_view bytes, int flags) {
  OpenFile file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0666));
  if (!file.is_open() || !file.write(bytes) || !file.close()) {
    return failure(kCannotWrite, path, last_error());
  }
  return success();
}

/// Six random bytes: no other process, and no attacker, makes the same name.
std::string new_suffix() {
  std::array<unsigned char, 6> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  std::string suffix = ".part-";
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kHex = "0123456789abcdef";
    suffix += kHex[byte >> 4U];
    suffix += kHex[byte & 15U];
  }
  return suffix;
}

/// A new file with these bytes, safe on the disk. `like`: whose rights it is given, if any.
bool write_new(const std::string& path, std::string_view bytes, const struct stat* like) {
  OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) return false;
  const bool written = file.write(bytes) &&
                       (like == nullptr || ::fchmod(file.number(), like->st_mode & 0777U) == 0) &&
                       ::fsync(file.number()) == 0;
  if (written && file.close()) return true;
  const int reason = errno;
  ::unlink(path.c_str());
  errno = reason;
  return false;
}

/// Replaces a regular file, or makes one, in one step.
Outcome replace(const std::string& path, std::string_view bytes, const struct stat* old) {
  const HeldSignals held;
  const std::string suffix = new_suffix();
  if (suffix.empty()) return failure(kCannotWrite, path, last_error());
  const std::string temporary = path + suffix;
  if (!write_new(temporary, bytes, old)) return failure(kCannotWrite, path, last_error());
  if (::rename(temporary.c_str(), path.c_str()) == 0) return success();
  const std::error_code reason = last_error();
  ::unlink(temporary.c_str());
  return failure(kCannotWrite, path, reason);
}

/// Where a chain of links leads; nothing where that is not there.
std::string end_of_links(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path end = std::filesystem::canonical(path, failed);
  return failed ? std::string() : end.string();
}

/// How much a file may hold: what is there of a regular one; of a pipe or device, which may never end,
/// what a trace or data set may come to.
std::size_t most_bytes_of(std::FILE* file) {
  constexpr std::size_t kEndless = std::size_t{256} << 20U;

  struct stat status {};

  const bool regular = ::fstat(::fileno(file), &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) return kEndless;
  if (status.st_size > 0) require_memory(static_cast<std::size_t>(status.st_size));
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const auto close = [](std::FILE* file) { static_cast<void>(std::fclose(file)); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rbe"), close);
  if (file == nullptr) return unreadable(errno, path);
  const std::size_t most = most_bytes_of(file.get());
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    if (text.size() > most) {
      return Error{
          "cannot read this file: it is not a regular file and does not end within 256 MiB", path};
    }
    const std::size_t n_read = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), n_read);
    if (n_read == part.size()) continue;
    if (std::ferror(file.get()) != 0) return unreadable(errno, path);
    return text;
  }
}

StagedFiles::~StagedFiles() {
  for (const Staged& file : staged_) ::unlink(file.temporary.c_str());
}

Outcome StagedFiles::add(const std::string& path, std::string_view bytes) {
  const std::string suffix = new_suffix();
  if (suffix.empty() || !write_new(path + suffix, bytes, nullptr)) {
    return failure(kCannotWrite, path, last_error());
  }
  staged_.push_back({.temporary = path + suffix, .path = path});
  return success();
}

Outcome StagedFiles::commit() {
  for (const Staged& file : staged_) {
    if (::rename(file.temporary.c_str(), file.path.c_str()) != 0) {
      return failure(kCannotWrite, file.path, last_error());
    }
  }
  staged_.clear();
  return success();
}

Outcome DiskFiles::publish(std::string_view path, std::string_view bytes) {
  const std::string name(path);

  struct stat found {};

  if (::lstat(name.c_str(), &found) != 0) {
    if (errno != ENOENT) return failure(kCannotWrite, path, last_error());
    Outcome made = replace(name, bytes, nullptr);
    return made.ok() ? sync(folder_of(path)) : made;
  }
  std::string target = name;
  if (S_ISLNK(found.st_mode)) {
    target = end_of_links(name);
    if (target.empty() || ::stat(target.c_str(), &found) != 0) {
      return write_in_place(name, bytes, O_CREAT);  // A link to a file that is not there yet.
    }
  }
  if (S_ISDIR(found.st_mode)) return Error{"this is a folder, not a file", name};
  if (!S_ISREG(found.st_mode)) return write_in_place(target, bytes, 0);
  Outcome replaced = replace(target, bytes, &found);
  if (!replaced.ok()) return Error{replaced.error().message, name};
  return sync(folder_of(target));
}

Result<std::string> DiskFiles::read(std::string_view path) { return read_file(std::string(path)); }

Outcome DiskFiles::write(std::string_view path, std::string_view bytes) {
  return write_in_place(std::string(path), bytes, O_CREAT | O_TRUNC);
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
  if (code) return failure(kCannotWrite, to, code);
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
