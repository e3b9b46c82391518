// What a rank executes: a Python script, a module, or any program.
#include <array>
#include <fstream>

#include "lockstep/base/text.h"
#include "lockstep/real/torchrun/detail/parts.h"

namespace lockstep::torchrun {

namespace {

/// What `python -c` runs for --run-path: the words after it are the script and its arguments.
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

/// True for a program of the machine: Python would complain about its first bytes.
bool is_binary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> start{};
  return file.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) ==
                                                      "\x7f"
                                                      "ELF";
}

Outcome check_kind(const Words& words, const Program& program) {
  if (words.module && words.no_python) {
    return Error{"--module and --no-python: a module needs Python; give one of them", {}};
  }
  if (program.after_dashes && (words.module || words.run_path)) {
    return Error{std::string(words.module ? "--module" : "--run-path") +
                     ": what follows -- is executed as it is; leave the -- out",
                 {}};
  }
  return success();
}

/// Whether each rank gets --local-rank=R in front of its own arguments.
Result<bool> gives_local_rank(const Words& words, Reading& to) {
  if (words.as == "torchrun") {
    if (words.use_env) {
      to.notices.emplace_back(
          "--use-env has no effect: ranks find LOCAL_RANK in the environment; only with --as "
          "torch.distributed.launch do they get --local-rank, too");
    }
    return false;
  }
  if (words.no_python && !words.use_env) {
    return Error{"--no-python needs --use-env, as under torch.distributed.launch", {}};
  }
  return !words.use_env;
}

}  // namespace

Outcome read_program(const Words& words,
                     const Program& program,
                     const launch::Lookup& inherited,
                     Reading& to) {
  if (Outcome kind = check_kind(words, program); !kind.ok()) return kind;
  const Result<bool> local_rank = gives_local_rank(words, to);
  if (!local_rank.ok()) return local_rank.error();
  if (program.words.empty()) return success();  // complaint() says so.
  std::vector<std::string>& command = to.options.command;
  const bool plain = program.after_dashes || (words.no_python && !words.run_path);
  if (!plain) {
    if (!words.module && is_binary(program.words.front())) {
      return Error{
          program.words.front() + " is not a Python script; put it after --, or give --no-python",
          {}};
    }
    command = {inherited("PYTHON_EXEC").value_or("python3"), "-u"};
    if (words.run_path) {
      command.insert(command.end(), {"-c", kRunPath});
    } else if (words.module) {
      command.emplace_back("-m");
    }
  }
  command.insert(command.end(), program.words.begin(), program.words.end());
  if (local_rank.value()) to.options.local_rank_place = command.size() - program.words.size() + 1;
  return success();
}

}  // namespace lockstep::torchrun
