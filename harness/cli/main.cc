// The `lockstep` command.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <unistd.h>

#include "lockstep/harness/cli/command_line.h"

namespace lockstep::cli {
namespace {

/// Runs what the command line means.
struct Dispatch {
  Terminal& terminal;

  ExitCode operator()(const UsageError& error) const { return bad_input(terminal, error.text); }

  ExitCode operator()(const Information& information) const {
    terminal.out << information.text;
    return ExitCode::kOk;
  }

  ExitCode operator()(const RunArguments& arguments) const { return run(arguments, terminal); }

  ExitCode operator()(const TestArguments& arguments) const { return test(arguments, terminal); }

  ExitCode operator()(const ZooArguments& arguments) const { return zoo(arguments, terminal); }

  ExitCode operator()(const ExploreArguments& arguments) const {
    return explore(arguments, terminal);
  }

  ExitCode operator()(const ReplayArguments& arguments) const {
    return replay(arguments, terminal);
  }

  ExitCode operator()(const CheckArguments& arguments) const { return check(arguments, terminal); }

  ExitCode operator()(const DiffArguments& arguments) const { return diff(arguments, terminal); }

  ExitCode operator()(const BisectArguments& arguments) const {
    return bisect(arguments, terminal);
  }

  ExitCode operator()(const ExportArguments& arguments) const {
    return export_trace(arguments, terminal);
  }

  ExitCode operator()(const AnalyzeArguments& arguments) const {
    return analyze(arguments, terminal);
  }

  ExitCode operator()(const CertifyArguments& arguments) const {
    return certify(arguments, terminal);
  }

  ExitCode operator()(const LawsArguments& arguments) const { return laws(arguments, terminal); }

  ExitCode operator()(const ExplainArguments& arguments) const {
    return explain(arguments, terminal);
  }

  ExitCode operator()(const SamplerArguments& arguments) const {
    return sampler(arguments, terminal);
  }

  ExitCode operator()(const NcclLogArguments& arguments) const {
    return nccl_log(arguments, terminal);
  }

  ExitCode operator()(const RankArguments& arguments) const { return rank(arguments, terminal); }

  ExitCode operator()(const CrosscheckArguments& arguments) const {
    return crosscheck(arguments, terminal);
  }

  ExitCode operator()(const LaunchArguments& arguments) const {
    return launch(arguments, terminal);
  }
};

bool wants_color() {
  const char* off = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): one thread here.
  return isatty(STDOUT_FILENO) == 1 && (off == nullptr || *off == '\0');
}

}  // namespace

ExitCode bad_input(Terminal& terminal, const std::string& text) {
  terminal.err << text << "\n";
  return ExitCode::kBadInput;
}

}  // namespace lockstep::cli

int main(int argc, char** argv) {
  using lockstep::cli::ExitCode;
  lockstep::cli::Terminal terminal{
      std::cout, std::cerr, lockstep::cli::wants_color(), isatty(STDERR_FILENO) == 1};
  try {
    const auto command = lockstep::cli::parse_command_line(argc, argv);
    const ExitCode code = std::visit(lockstep::cli::Dispatch{terminal}, command);
    std::cout.flush();
    return static_cast<int>(code);
  } catch (const std::exception& error) {
    std::cerr << "lockstep: internal error: " << error.what()
              << " (a bug in Lockstep; please report it with the command you typed)\n";
    return static_cast<int>(ExitCode::kInternal);
  }
}
