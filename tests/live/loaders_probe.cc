// Answers the cases of loaders.py: one line per case on the standard input, a line of batches each.
#include <iostream>
#include <string>

#include "tests/golden/loaded.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << lockstep::golden::loaded(lockstep::golden::case_of(line)) << '\n';
  }
  return 0;
}
