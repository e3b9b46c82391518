// Answers the cases of loaders.py: one line a case on the standard input, one line of batches each.
#include <iostream>
#include <string>

#include "tests/golden/loaded.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << lockstep::golden::loaded(lockstep::golden::case_of(line)) << '\n';
  }
  return 0;
}
