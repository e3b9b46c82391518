// Answers the cases of ops.py (format: tests/golden/op_answers.h).
#include <iostream>
#include <string>

#include "tests/golden/op_answers.h"
#include "tests/support/test_runtime.h"

int main() {
  lockstep::testing::TestRuntime test;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << lockstep::golden::answer_op(test.runtime, line) << '\n';
  }
  return 0;
}
