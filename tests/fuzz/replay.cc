// Runs a fuzzer without libFuzzer: on every file of a folder, as it is, damaged a number of times, and
// grown to the largest input that is promised anything.
//
//   read_trace_replay CORPUS ROUNDS [DICTIONARY]
//
// The damage is drawn from a fixed seed, so that every run sees the same inputs. With libFuzzer in its
// place (./dev fuzz) the same code is explored by coverage, within the same bounds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "lockstep/base/check.h"

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

// What SECURITY.md promises of an input of at most this size. The seconds are of the processor.
constexpr std::size_t kMostInput = std::size_t{1} << 20U;
constexpr std::int64_t kMostMemoryKib = std::int64_t{1} << 20U;
constexpr std::int64_t kMostSeconds = 10;
constexpr std::uint64_t kRoundsPerGrowth = 100;

/// A piece of it, repeated in its place until the input is as large as an input may be.
std::string grown(const std::string& bytes, Dice& dice) {
  const auto at = static_cast<std::size_t>(dice.below(bytes.size()));
  const auto length = static_cast<std::size_t>(1 + dice.below(bytes.size() - at));
  std::string input = bytes.substr(0, at);
  while (input.size() + bytes.size() < kMostInput) input.append(bytes, at, length);
  return input.append(bytes, at, std::string::npos);
}

/// Reads one input, and ends the process if that took more than it may.
void read_within_bounds(const std::string& input) {
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  read_one(input);
  getrusage(RUSAGE_SELF, &after);
  const std::int64_t seconds = after.ru_utime.tv_sec - before.ru_utime.tv_sec;
  if (seconds <= kMostSeconds && after.ru_maxrss <= kMostMemoryKib) return;
  std::ofstream("too-much", std::ios::binary) << input;
  LOCKSTEP_CHECK(false,
                 "an input of " + std::to_string(input.size()) + " bytes took " +
                     std::to_string(seconds) + " s and " + std::to_string(after.ru_maxrss) +
                     " KiB; it is in the file 'too-much'");
}

int run(const std::string& corpus, std::uint64_t rounds, const Words& words) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) files.insert(entry.path());
  Dice dice;
  Dice growth;
  std::uint64_t n = 0;
  for (const std::filesystem::path& file : files) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    read_within_bounds(text.str());
    for (std::uint64_t round = 0; round < rounds; ++round, ++n) {
      read_within_bounds(damaged(text.str(), words, dice));
    }
    for (std::uint64_t round = 0; round < rounds / kRoundsPerGrowth; ++round) {
      if (!text.str().empty()) read_within_bounds(grown(text.str(), growth));
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
