// Answers the cases of draws.py: one line per case on the standard input, one line of bits each.
#include <iostream>
#include <string>

#include "tests/golden/drawn_inits.h"
#include "tests/support/test_runtime.h"

int main() {
  using namespace lockstep;
  lockstep::testing::TestRuntime test;
  for (std::string line; std::getline(std::cin, line);) {
    const golden::Case one = golden::case_of(line);
    const bool scheme = one.kind.find('_') != std::string::npos;
    std::cout << (scheme ? golden::initialised(one, test.runtime) : golden::drawn(one)) << '\n';
  }
  return 0;
}
