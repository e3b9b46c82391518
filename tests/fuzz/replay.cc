// Runs a fuzzer without libFuzzer: on every file of a folder, as it is and damaged a number of times.
//
//   read_trace_replay CORPUS ROUNDS [DICTIONARY]
//
// The damage is drawn from a fixed seed, so that every run sees the same inputs. With libFuzzer in its
// place (./dev fuzz) the same code is explored by coverage.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

/// SplitMix64.
class Dice {
 public:
  std::uint64_t below(std::uint64_t n) {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return n == 0 ? 0 : (z ^ (z >> 31U)) % n;
  }

 private:
  std::uint64_t state_ = 1;
};

using Words = std::vector<std::string>;

const Words kWords = {"1e999",
                      "-1",
                      "9223372036854775807",
                      "18446744073709551615",
                      "null",
                      "[]",
                      "{}",
                      "\"\"",
                      "true",
                      "\\u0000",
                      "100000000",
                      "[[[["};

/// Those of every format, then those of a dictionary: one per line, in quotes.
Words words_with(const std::string& dictionary) {
  Words words = kWords;
  std::ifstream lines(dictionary);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 2) words.push_back(line.substr(1, line.size() - 2));
  }
  return words;
}

std::string damaged(std::string bytes, const Words& words, Dice& dice) {
  for (std::uint64_t i = 0, n = 1 + dice.below(4); i < n; ++i) {
    const auto at = static_cast<std::size_t>(dice.below(bytes.size() + 1));
    const auto length = static_cast<std::size_t>(dice.below(16));
    switch (dice.below(5)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(dice.below(256));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at,
                     bytes.substr(static_cast<std::size_t>(dice.below(bytes.size() + 1)), length));
        break;
      case 3:
        bytes.replace(at, std::min(length, bytes.size() - at), words[dice.below(words.size())]);
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

int run(const std::string& corpus, std::uint64_t rounds, const Words& words) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) files.insert(entry.path());
  Dice dice;
  std::uint64_t n = 0;
  for (const std::filesystem::path& file : files) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    read_one(text.str());
    for (std::uint64_t round = 0; round < rounds; ++round, ++n) {
      read_one(damaged(text.str(), words, dice));
    }
  }
  std::cout << files.size() << " files, " << n << " damaged inputs\n";
  return files.empty() ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::fuzz

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const lockstep::fuzz::Words words =
      argc == 4 ? lockstep::fuzz::words_with(argv[3]) : lockstep::fuzz::kWords;
  if (argc == 4 && words.size() == lockstep::fuzz::kWords.size()) return 2;
  return lockstep::fuzz::run(argv[1], std::strtoull(argv[2], nullptr, 10), words);
}
