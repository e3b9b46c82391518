// `lockstep laws`: the numbered contract.
#include "lockstep/laws/law.h"
#include "lockstep/scenario/relation_laws.h"

#include "cli/commands.h"

namespace lockstep::cli {
namespace {

std::string_view how(std::string_view id) {
  for (const LawInfo& law : trace_laws()) {
    if (law.id == id) return "checked on one trace";
  }
  for (const std::string_view law : kRelationLaws) {
    if (law == id) return "checked with companion runs of a scenario";
  }
  return "not checked yet";
}

}  // namespace

ExitCode laws(Terminal& terminal) {
  for (const LawInfo& law : all_laws()) {
    terminal.out << law.number << ". " << law.id << " [" << law.detector << "], " << how(law.id)
                 << "\n   " << law.statement << "\n   Source: " << law.source
                 << "\n   Does not see: " << law.blind_spots << "\n";
  }
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
