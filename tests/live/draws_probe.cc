// Answers the cases of draws.py: one line a case on the standard input, one line of bits each.
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "lockstep/random/permutation.h"

namespace {

std::string answer(std::istringstream& words) {
  std::string kind;
  std::uint64_t seed = 0;
  std::int64_t n = 0;
  words >> kind >> seed >> n;
  lockstep::Generator generator(seed);
  std::string out;
  for (const std::int64_t value : lockstep::randperm(generator, n)) {
    char word[18];
    std::snprintf(word, sizeof word, "%016" PRIx64 " ", static_cast<std::uint64_t>(value));
    out += word;
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::cout << answer(words) << '\n';
  }
  return 0;
}
