// Which NCCL this program was compiled against, and which one it found when it started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::nccl {

/// NCCL's own codes: 22809 is 2.28.9.
struct Versions {
  std::int32_t header = 0;   ///< nccl.h at compile time.
  std::int32_t library = 0;  ///< libnccl.so.2 at run time.
};

/// Needs no device. Errors: DeviceError when the library does not tell.
Versions versions();

/// "2.28.9" for 22809; versions before 2.9 have four digits (2804 is 2.8.4).
std::string version_text(std::int32_t code);

/// Why the two do not fit, or nothing. A newer library of the same major version serves an older
/// header; an older library may lack what the header promises.
std::optional<std::string> mismatch(const Versions& versions);

}  // namespace lockstep::nccl
