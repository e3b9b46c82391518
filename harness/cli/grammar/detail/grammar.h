// The words of each command, bound to the fields of its arguments.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/grammar/detail/command_words.h"

namespace lockstep::cli {

/// Limits of options that count ranks, seconds or runs, and threads.
inline constexpr std::int64_t kMany = 1'000'000;
inline constexpr std::int64_t kMostThreads = 1024;

/// The help of --laws, in every command that prints a report.
inline constexpr const char* kLawsText = "Lists every law with its verdict";

/// Accepts whole numbers from 1 to `most`.
CLI::Validator from_one_to(std::int64_t most);

void add_words(CLI::App& app, HelpPage& page, RunArguments& to);
void add_words(CLI::App& app, HelpPage& page, TestArguments& to);
void add_words(CLI::App& app, HelpPage& page, ZooArguments& to);
void add_words(CLI::App& app, HelpPage& page, ExploreArguments& to);
void add_words(CLI::App& app, HelpPage& page, MergeArguments& to);
void add_words(CLI::App& app, HelpPage& page, ReplayArguments& to);
void add_words(CLI::App& app, HelpPage& page, CheckArguments& to);
void add_words(CLI::App& app, HelpPage& page, DiffArguments& to);
void add_words(CLI::App& app, HelpPage& page, ExplainDiffArguments& to);
void add_words(CLI::App& app, HelpPage& page, BisectArguments& to);
void add_words(CLI::App& app, HelpPage& page, CertifyArguments& to);
void add_words(CLI::App& app, HelpPage& page, WhatIfArguments& to);
void add_words(CLI::App& app, HelpPage& page, ExportArguments& to);
void add_words(CLI::App& app, HelpPage& page, AnalyzeArguments& to);
void add_words(CLI::App& app, HelpPage& page, LawsArguments& to);
void add_words(CLI::App& app, HelpPage& page, ExplainArguments& to);
void add_words(CLI::App& app, HelpPage& page, SamplerArguments& to);
void add_words(CLI::App& app, HelpPage& page, NcclLogArguments& to);
void add_words(CLI::App& app, HelpPage& page, CrosscheckArguments& to);
void add_words(CLI::App& app, HelpPage& page, LaunchArguments& to);
void add_words(CLI::App& app, HelpPage& page, RankArguments& to);
void add_words(CLI::App& app, HelpPage& page, HelpArguments& to);

}  // namespace lockstep::cli
