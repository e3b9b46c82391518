// A strategy that picks what the test says and keeps a list of its calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim::testing {

using Calls = std::vector<std::string>;

/// Picks what it is given, and keeps a list of the calls it got.
class Scripted final : public Strategy {
 public:
  explicit Scripted(bool watches) : watches_(watches) {}

  void start(std::int32_t n_ranks) override { calls = {"start " + std::to_string(n_ranks)}; }

  void on_enabled(const Action& action) override { say("enabled", action.id); }

  void on_disabled(ActionId id) override { say("disabled", id); }

  ActionId pick() override { return next; }

  std::string describe() const override { return "scripted"; }

  bool watches() const override { return watches_; }

  void on_touch(std::uint64_t object) override {
    calls.push_back("touch " + std::to_string(object));
  }

  void on_quiet() override { calls.emplace_back("quiet"); }

  Calls calls;
  ActionId next{};

 private:
  void say(const std::string& what, ActionId id) {
    calls.push_back(what + " " + std::to_string(static_cast<std::uint64_t>(id)));
  }

  bool watches_;
};

}  // namespace lockstep::sim::testing
