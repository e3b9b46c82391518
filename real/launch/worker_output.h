// What ranks print, line by line with the rank in front.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

namespace lockstep::launch {

/// One stream of one rank on its way to the terminal, and to a file where asked.
class WorkerOutput {
 public:
  /// `file` empty: the terminal alone.
  WorkerOutput(std::string prefix, std::ostream& terminal, const std::string& file);

  void write(std::string_view bytes);

  /// A last line without an end gets one.
  void finish();

 private:
  std::string prefix_;
  std::ostream* terminal_;
  std::ofstream file_;
  std::string line_;
};

}  // namespace lockstep::launch
