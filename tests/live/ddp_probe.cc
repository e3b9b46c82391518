// Draws generated jobs and answers them. `draw SEED N` prints N jobs; `run COMPAT [MISTAKE]` reads
// jobs from the standard input, one per line, and prints one answer per line.
#include <iostream>
#include <map>

#include "lockstep/base/text.h"

#include "tests/programs/drawing.h"
#include "tests/programs/run.h"

namespace {

using lockstep::programs::Mistake;

const std::map<std::string, Mistake> kMistakes = {{"none", Mistake::kNone},
                                                  {"divide-after", Mistake::kDivideAfter},
                                                  {"other-order", Mistake::kOtherOrder},
                                                  {"mean-of-means", Mistake::kMeanOfMeans},
                                                  {"one-bucket", Mistake::kOneBucket}};

void print_jobs(std::uint64_t seed, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::cout << lockstep::programs::text_of(lockstep::programs::draw_program(seed, i)) << '\n';
  }
}

void answer_jobs(lockstep::Compat compat, const std::string& mistake) {
  lockstep::sim::Session session;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << lockstep::programs::text_of(
                     run_program(session,
                                 lockstep::programs::parse_program(line),
                                 {.compat = compat, .mistake = kMistakes.at(mistake)}))
              << '\n';
  }
}

}  // namespace

int main(int n_words, char** words) {
  const std::vector<std::string> arguments(words + 1, words + n_words);
  if (arguments.at(0) == "draw") {
    print_jobs(static_cast<std::uint64_t>(lockstep::parse_int(arguments.at(1)).value()),
               lockstep::parse_int(arguments.at(2)).value());
  } else {
    answer_jobs(lockstep::parse_enum<lockstep::Compat>(arguments.at(1)).value(),
                arguments.size() > 2 ? arguments[2] : "none");
  }
  return 0;
}
