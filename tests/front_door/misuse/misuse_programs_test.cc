// Every misuse in a process of its own: it must end with code 1 and the words of its error.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

/// What a program's main() is, with the last resort of one who knows of exceptions.
[[noreturn]] void run_as_main(const Misuse& misuse) {
  int code = 1;
  try {
    code = misuse.act();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
  } catch (int number) {
    std::cerr << "thrown: " << number << '\n';
  }
  std::exit(code);
}

std::vector<Misuse> all_misuses() {
  std::vector<Misuse> all;
  for (const auto part : {with_ranks(),
                          with_tensors(),
                          with_collectives(),
                          with_training(),
                          with_data(),
                          with_options()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class MisuseDeathTest : public ::testing::TestWithParam<Misuse> {};

TEST_P(MisuseDeathTest, EndsWithItsError) {
  const Misuse& misuse = GetParam();
  if (misuse.by_signal) {
#ifdef __SANITIZE_ADDRESS__  // UndefinedBehaviorSanitizer ends the process before the signal comes.
    EXPECT_EXIT(run_as_main(misuse), ::testing::ExitedWithCode(1), "null pointer");
#else
    EXPECT_EXIT(run_as_main(misuse), ::testing::KilledBySignal(SIGSEGV), misuse.words);
#endif
  } else {
    EXPECT_EXIT(run_as_main(misuse), ::testing::ExitedWithCode(1), misuse.words);
  }
}

INSTANTIATE_TEST_SUITE_P(AStranger,
                         MisuseDeathTest,
                         ::testing::ValuesIn(all_misuses()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lockstep::misuse

#ifdef __SANITIZE_ADDRESS__
// Faults are Lockstep's to explain here, as they are in a stranger's program.
// NOLINTNEXTLINE(readability-identifier-naming, bugprone-reserved-identifier): the sanitizer's name.
extern "C" const char* __asan_default_options() { return "handle_segv=0"; }
#endif

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--alone") {
    for (const auto& misuse : lockstep::misuse::all_misuses()) {
      if (std::string(argv[2]) == misuse.name) lockstep::misuse::run_as_main(misuse);
    }
    return 2;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
