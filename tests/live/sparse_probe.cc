// Answers the cases of sparse.py: programs over sparse gradients.
#include <iostream>

#include "tests/optim/sparse_case.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t cut = line.find(" : ");
    lockstep::golden::Case one = lockstep::golden::case_of(line.substr(0, cut));
    one.values = line.substr(cut + 3);
    std::cout << lockstep::optim::SparseProgram(one).run() << '\n';
  }
  return 0;
}
