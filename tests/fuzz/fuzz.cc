#include "tests/fuzz/fuzz.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lockstep/base/check.h"

namespace lockstep::fuzz {

Folder::Folder() {
  const char* const memory = "/dev/shm";
  path_ =
      std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path().string();
  path_ += "/lockstep-fuzz-XXXXXX";
  LOCKSTEP_CHECK(::mkdtemp(path_.data()) != nullptr, "cannot make a folder");
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Folder::write(const std::string& name, std::string_view bytes) const {
  std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
}

void expect_a_sentence(const Error& error) {
  LOCKSTEP_CHECK(!error.message.empty(), "a refusal says why");
  LOCKSTEP_CHECK(error.text().find('\n') == std::string::npos,
                 "a refusal is one line: " + error.text());
}

}  // namespace lockstep::fuzz

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n) {
  lockstep::fuzz::read_one({reinterpret_cast<const char*>(data), n});
  return 0;
}
