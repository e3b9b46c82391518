// The `lockstep` command.
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <new>
#include <ostream>
#include <system_error>
#include <unistd.h>

#include "lockstep/harness/cli/command_line.h"
#include "lockstep/harness/cli/shown_text.h"

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

  ExitCode operator()(const MergeArguments& arguments) const { return merge(arguments, terminal); }

  ExitCode operator()(const ReplayArguments& arguments) const {
    return replay(arguments, terminal);
  }

  ExitCode operator()(const CheckArguments& arguments) const { return check(arguments, terminal); }

  ExitCode operator()(const DiffArguments& arguments) const { return diff(arguments, terminal); }

  ExitCode operator()(const ExplainDiffArguments& arguments) const {
    return explain_diff(arguments, terminal);
  }

  ExitCode operator()(const BisectArguments& arguments) const {
    return bisect(arguments, terminal);
  }

  ExitCode operator()(const WhatIfArguments& arguments) const {
    return whatif(arguments, terminal);
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

namespace lockstep::cli {
namespace {

/// Ends whatever the command said: half a report must not look like a whole one.
ExitCode finish(std::ostream& out, const ShownText& text, std::ostream& err, ExitCode code) {
  out.flush();
  if (text.failure() == 0) return code;
  err << "lockstep: cannot write to the standard output: "
      << std::generic_category().message(text.failure()) << "\n";
  return ExitCode::kRunFailed;
}

constexpr std::string_view kNoMemory =
    "lockstep: out of memory; use fewer ranks, steps or elements\n";

/// Exceptions that may not go further, such as those of a rank's last moment, end here.
[[noreturn]] void end_at_once() {
  try {
    if (const std::exception_ptr reason = std::current_exception()) std::rethrow_exception(reason);
  } catch (const std::bad_alloc&) {
    if (write(STDERR_FILENO, kNoMemory.data(), kNoMemory.size()) >= 0) {
      _exit(static_cast<int>(ExitCode::kRunFailed));
    }
  } catch (...) {  // Its type and text are all that the default handler would print.
    __gnu_cxx::__verbose_terminate_handler();
  }
  std::abort();
}

ExitCode run_command(int argc, char** argv, std::ostream& err) {
  const Command command = parse_command_line(argc, argv);
  const bool color = wants_color();
  // What `launch` prints are the lines of the user's program.
  const bool foreign = std::holds_alternative<LaunchArguments>(command);
  const auto escapes = foreign ? ShownText::Escapes::kRaw
                       : color ? ShownText::Escapes::kColors
                               : ShownText::Escapes::kShown;
  ShownText out_text(STDOUT_FILENO, escapes);
  ShownText err_text(STDERR_FILENO,
                     foreign ? ShownText::Escapes::kRaw : ShownText::Escapes::kShown);
  ShownText line_text(STDERR_FILENO, ShownText::Escapes::kRaw);
  std::ostream out(&out_text);
  std::ostream shown_err(&err_text);
  std::ostream line(&line_text);
  shown_err << std::unitbuf;
  Terminal terminal{out, shown_err, color, isatty(STDERR_FILENO) == 1, &line};
  const ExitCode code = std::visit(Dispatch{terminal}, command);
  return finish(out, out_text, err, code);
}

/// Where a daemon has closed 0, 1 or 2, the next file or pipe that is opened would be taken for a standard stream. From here
/// on they are taken: reading finds the end, and writing fails as it would.
void claim_standard_streams() {
  int file = STDIN_FILENO;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file > STDERR_FILENO) close(file);
}

/// In main, where nothing may be left to handle.
ExitCode run_guarded(int argc, char** argv) {
  claim_standard_streams();
  std::set_terminate(end_at_once);
  ShownText text(STDERR_FILENO, ShownText::Escapes::kShown);
  std::ostream err(&text);
  try {
    return run_command(argc, argv, err);
  } catch (const std::bad_alloc&) {
    err << kNoMemory;
    return ExitCode::kRunFailed;
  } catch (const std::exception& error) {
    err << "lockstep: internal error: " << error.what()
        << " (a bug in Lockstep; please report it with the command you typed)\n";
    return ExitCode::kInternal;
  }
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) { return static_cast<int>(lockstep::cli::run_guarded(argc, argv)); }
