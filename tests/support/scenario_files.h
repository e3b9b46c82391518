// Scenario texts for tests: a healthy job to change, and a folder to write files into.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// y = w * x on two ranks, exact, one step. Line 4 is the model, line 5 the data.
inline std::string small_job() {
  return "format = 1\n"
         "world = { ranks = 2 }\n"
         "exact = { grid = 4, clamp = 8.0 }\n"
         "model = { kind = \"scalar\", init = { kind = \"constant\", value = 1.0 } }\n"
         "data = { rows = [ { x = [1], y = [0] }, { x = [2], y = [0] } ] }\n"
         "loss = { kind = \"mse\" }\n"
         "optimizer = { kind = \"sgd\", lr = 0.25 }\n"
         "loop = { steps = 1 }\n";
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "' in the text";
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline std::vector<std::string> texts_of(const std::vector<UnmetExpectation>& unmet) {
  std::vector<std::string> texts;
  texts.reserve(unmet.size());
  for (const UnmetExpectation& each : unmet) texts.push_back(each.text);
  return texts;
}

/// Writes files into a folder of the running test's own.
class ScenarioFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string(info->test_suite_name()) + "." + info->name());
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
  }

  void TearDown() override {
    std::filesystem::current_path(::testing::TempDir());
    std::filesystem::remove_all(folder_);
  }

  static std::string write(const std::string& text, const std::string& name = "job.toml") {
    std::ofstream(name) << text;
    return name;
  }

  static Result<Scenario> load(const std::string& text,
                               const std::string& variant = "",
                               const std::vector<Setting>& settings = {}) {
    return load_scenario(write(text), variant, settings);
  }

  static std::string error_of(const std::string& text,
                              const std::string& variant = "",
                              const std::vector<Setting>& settings = {}) {
    const Result<Scenario> scenario = load(text, variant, settings);
    return scenario.ok() ? "no error" : scenario.error().text();
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace lockstep
