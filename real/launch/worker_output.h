// What ranks print, line by line with the rank in front.
#pragma once

#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

/// A file for those lines of several ranks that contain one of some texts.
struct Duplicates {
  std::vector<std::string> texts;
  std::ofstream file;
};

/// One stream of one rank on its way to the terminal, and to files where asked.
class WorkerOutput {
 public:
  /// `terminal` null: it is not shown, nor copied to `duplicates`. `file` empty: none. `duplicates` may
  /// be null.
  WorkerOutput(std::string prefix,
               std::ostream* terminal,
               const std::string& file,
               std::shared_ptr<Duplicates> duplicates);

  void write(std::string_view bytes);

  /// A last line without an end gets one.
  void finish();

 private:
  void show_line();

  std::string prefix_;
  std::ostream* terminal_;
  std::ofstream file_;
  std::shared_ptr<Duplicates> duplicates_;
  std::string line_;
};

}  // namespace lockstep::launch
