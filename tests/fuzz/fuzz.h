// What the fuzzers share: bytes in, nothing out but a sentence or a crash.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::fuzz {

/// Reads one input. Each fuzzer defines it.
void read_one(std::string_view bytes);

/// A folder in memory that exists as long as the process.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  Folder(Folder&&) = delete;
  Folder& operator=(Folder&&) = delete;

  void write(const std::string& name, std::string_view bytes) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Aborts unless the refusal is one line of text with something in it.
void expect_a_sentence(const Error& error);

}  // namespace lockstep::fuzz
