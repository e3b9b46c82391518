// Signals that wait.
#include <array>
#include <csignal>

#include <gtest/gtest.h>

#include "lockstep/base/disk_files.h"

namespace lockstep {
namespace {

std::array<volatile std::sig_atomic_t, 3> n_came = {};
constexpr std::array<int, 3> kHeld = {SIGINT, SIGTERM, SIGHUP};

void count_one(int signal) {
  for (std::size_t i = 0; i < kHeld.size(); ++i) {
    if (kHeld[i] == signal) n_came[i] = n_came[i] + 1;
  }
}

TEST(HeldSignalsTest, WhatComesMeanwhileTakesEffectAtTheEnd) {
  for (std::size_t i = 0; i < kHeld.size(); ++i) {
    const auto before = std::signal(kHeld[i], &count_one);
    {
      const HeldSignals outer;
      {
        const HeldSignals inner;
        std::raise(kHeld[i]);
      }
      EXPECT_EQ(n_came[i], 0) << kHeld[i];
    }
    EXPECT_EQ(n_came[i], 1) << kHeld[i];
    std::signal(kHeld[i], before);
  }
}

}  // namespace
}  // namespace lockstep
