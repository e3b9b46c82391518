// run_ranks in a process that a launcher started as one rank.
#include <fstream>
#include <stdexcept>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/harness/run/detail/check_options.h"
#include "lockstep/harness/run/detail/follow_loops.h"
#include "lockstep/harness/run/detail/run_files.h"
#include "lockstep/harness/run/detail/uncaught.h"
#include "lockstep/real/group/meeting_place.h"
#include "lockstep/real/host/real_host.h"
#include "lockstep/real/session/rank_session.h"
#include "lockstep/run.h"

namespace lockstep {

namespace {

/// What RunOptions::backend may say besides the backends of real ranks.
enum class OwnBackend : std::uint8_t {
  kSim,   ///< The simulator.
  kAuto,  ///< What the launcher says; without one, the simulator.
};

}  // namespace

template <>
inline constexpr EnumNames<2> kEnumNames<OwnBackend> = {"sim", "auto"};

namespace {

[[noreturn]] void refuse(const Error& error) { throw std::invalid_argument(error.text()); }

LaunchEnvironment place_of_this_process(const RunOptions& options) {
  const Result<std::optional<LaunchEnvironment>> read =
      read_launch_environment(process_environment());
  if (!read.ok()) refuse(read.error());
  if (!read.value()) {
    refuse({"backend '" + options.backend +
                "' runs one rank per process; start the program with `lockstep launch` or torchrun",
            {}});
  }
  const LaunchEnvironment& place = *read.value();
  if (place.world_size != options.ranks) {
    refuse({"the program asks for " + std::to_string(options.ranks) +
                " ranks, but the launcher started " + std::to_string(place.world_size),
            {}});
  }
  return place;
}

void gather_results(RankContext& context, std::span<std::byte> own, std::vector<std::byte>& all) {
  const auto n_ranks = static_cast<std::size_t>(context.world_size());
  all.resize(own.size() * n_ranks);
  const auto bytes = static_cast<std::int64_t>(own.size());
  std::vector<Memory> parts;
  for (std::size_t r = 0; r < n_ranks; ++r) {
    parts.push_back({all.data() + r * own.size(), bytes, DType::kU8, Device::kCpu});
  }
  const Memory input{own.data(), bytes, DType::kU8, Device::kCpu};
  context.world().all_gather(parts, input).wait_or_throw();
}

/// The report file that was asked for, from the traces of all ranks in `folder`.
void leave_report(const RunOptions& options,
                  const std::string& backend,
                  const Report& report,
                  const std::string& folder) {
  const detail::RunFiles files = detail::run_files(options, process_environment());
  if (files.report.empty()) return;
  const Result<LoadedTrace> loaded = read_jsonl(folder);
  if (!loaded.ok()) throw std::runtime_error(loaded.error().text());
  detail::write_report(files,
                       {.report = report, .trace = *loaded.value().trace, .backend = backend});
}

/// Real ranks have no schedule to replay: what can be repeated is the launch of this program.
std::string repeat_command(const LaunchEnvironment& place, const std::string& backend) {
  if (place.local_world_size != place.world_size) return "the same launch on all machines";
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::string command;
  for (std::string word; std::getline(words, word, '\0');) command += " " + word;
  return "lockstep launch --nproc-per-node " + std::to_string(place.world_size) + " --backend " +
         backend + " --" + command;
}

}  // namespace

std::optional<std::string> real_backend(const RunOptions& options) {
  std::string name = options.backend;
  if (parse_enum<OwnBackend>(name) == OwnBackend::kAuto) {
    name = process_environment()("LOCKSTEP_BACKEND").value_or("");
  }
  if (name.empty() || parse_enum<OwnBackend>(name) == OwnBackend::kSim) return std::nullopt;
  if (const Result<Backend> found = find_backend(name); !found.ok()) refuse(found.error());
  return name;
}

RealRank run_real_rank(const RunOptions& options,
                       const std::string& backend,
                       const std::function<void(RankContext&)>& body,
                       std::span<std::byte> result) {
  detail::check_options(options);
  const LaunchEnvironment place = place_of_this_process(options);
  // A program may call run_ranks several times, and every call is its own world.
  const auto meeting = peers::MeetingPlace::join(rendezvous_folder(place, process_environment()),
                                                 place.rank,
                                                 place.world_size,
                                                 options.timeout);
  if (!meeting.ok()) throw std::runtime_error(meeting.error().text());
  RealRank real;
  real.rank = place.rank;
  RankSessionOptions session;
  session.backend = {.place = place,
                     .rendezvous = meeting.value()->folder(),
                     .timeout = options.timeout,
                     .check_arrivals = options.check_arrivals || place.check_arrivals};
  session.exact = options.exact;
  session.record = options.record;
  session.trace = options.trace.empty() ? place.trace : options.trace;
  session.laws = options.laws;
  session.title = "run_ranks";
  session.replay = repeat_command(place, backend);
  session.policy.allow = options.allow;
  session.policy.coverage = options.coverage;
  if (!result.empty()) {
    session.afterwards = [&](RankContext& context) {
      gather_results(context, result, real.results);
    };
  }
  const auto play = [&](RankContext& context) {
    meeting.value()->close_doors();  // They are connected.
    detail::follow_loops(body, context);
  };
  Result<RankSessionResult> run = run_this_rank(find_backend(backend).value(), session, play);
  if (!run.ok()) throw std::runtime_error(run.error().text());
  const std::exception_ptr exception = run.value().exception;
  // As in the simulator: a CommError is a misfortune of the run and stays in the report.
  const bool own = run.value().failure == FailureOrigin::kOwn;
  if (own) real.failure = {place.rank, exception};
  real.report = std::move(run.value().report);
  if (place.rank == 0 && options.record) {
    leave_report(options, backend, real.report, run.value().trace);
  }
  if (own && options.rethrow) detail::leave_with(exception, std::move(real.report));
  return real;
}

}  // namespace lockstep
