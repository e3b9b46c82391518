// How a probe answers jobs, one per line: to its caller, or compared with answers in a file.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>

namespace lockstep::live {

/// The answer to a job, with a mistake planted.
using Answer = std::function<std::string(const std::string& job, const std::string& mistake)>;
/// The part of an answer that must be equal.
using Promised = std::function<std::string(const std::string& answer)>;

/// Returns how many answers differ from those in the file, "job : answer"; an empty file has none to
/// agree with.
inline std::int64_t n_different(const std::string& path,
                                const std::string& mistake,
                                const Answer& answer,
                                const Promised& promised) {
  constexpr std::size_t kShown = 400;  // Letters of an answer.
  std::int64_t n = 0;
  std::int64_t n_wrong = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(" : ");
    if (line.starts_with('#') || colon == std::string::npos) continue;
    const std::string job = line.substr(0, colon);
    const std::string recorded = line.substr(colon + 3);
    const std::string here = answer(job, mistake);
    ++n;
    if (promised(here) == promised(recorded)) continue;
    ++n_wrong;
    std::cout << job << "\n  recorded " << recorded.substr(0, kShown) << "\n  here     "
              << here.substr(0, kShown) << '\n';
  }
  std::cout << n_wrong << " of " << n << " answers differ\n";
  return n == 0 ? 1 : n_wrong;
}

/// `PROBE [MISTAKE [FILE]]`: answers what comes in, or compares with a file. Returns: the exit code.
inline int answer_all(
    int n_words,
    char** words,
    const Answer& answer,
    const Promised& promised = [](const std::string& all) { return all; }) {
  const std::string mistake = n_words > 1 ? words[1] : "none";
  if (n_words > 2) return n_different(words[2], mistake, answer, promised) == 0 ? 0 : 1;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(line, mistake) << '\n';
  }
  return 0;
}

}  // namespace lockstep::live
