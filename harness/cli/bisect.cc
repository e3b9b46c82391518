// `lockstep bisect`: where two traces, or the ranks of one, begin to differ.
#include "lockstep/compare/bisect.h"

#include <algorithm>

#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {

ExitCode bisect(const BisectArguments& arguments, Terminal& terminal) {
  std::vector<LoadedTrace> traces;
  for (const std::string& folder : arguments.folders) {
    Result<LoadedTrace> loaded = read_jsonl(folder);
    if (!loaded.ok()) return bad_input(terminal, loaded.error().text());
    traces.push_back(std::move(loaded).value());
  }
  const MemoryTrace& trace = *traces.front().trace;
  const bool of_ranks = traces.size() == 1;
  if (of_ranks && trace.n_ranks() < 2) {
    return bad_input(terminal,
                     "lockstep bisect: " + arguments.folders.front() +
                         ": a trace of one rank; name a second trace to compare it with");
  }
  const Bisection found = of_ranks ? bisect_ranks(trace) : bisect_runs(trace, *traces.back().trace);
  const std::string what =
      of_ranks ? "what " + std::to_string(trace.n_ranks()) + " ranks share" : "both traces";
  terminal.out << bisection_text(found, what);
  return found.first ? ExitCode::kFindings : ExitCode::kOk;
}

}  // namespace lockstep::cli
