#include "lockstep/real/launch/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lockstep/real/launch/node_group.h"
#include "lockstep/real/launch/port.h"
#include "lockstep/real/launch/rank_logs.h"
#include "lockstep/real/launch/silence.h"
#include "lockstep/real/launch/worker.h"

namespace lockstep::launch {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMaxReads = 16;
constexpr auto kMostLate = std::chrono::seconds(1);  // That a round of watching may be.

std::optional<std::string> inherited(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

/// Signals as something to poll, while it lives.
class SignalInbox {
 public:
  explicit SignalInbox(const std::vector<int>& signals) {
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD);
    for (const int signal : signals) sigaddset(&mine, signal);
    sigprocmask(SIG_BLOCK, &mine, &before_);
    handle_ = signalfd(-1, &mine, SFD_NONBLOCK | SFD_CLOEXEC);
  }

  ~SignalInbox() {
    close(handle_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  SignalInbox(SignalInbox&&) = delete;
  SignalInbox& operator=(SignalInbox&&) = delete;

  int handle() const { return handle_; }

  const sigset_t& before() const { return before_; }

  /// The signal to pass on, 0 when there is none.
  int take() const {
    signalfd_siginfo info{};
    int taken = 0;
    while (read(handle_, &info, sizeof info) == sizeof info) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) taken = signal;
    }
    return taken;
  }

 private:
  sigset_t before_{};
  int handle_ = -1;
};

/// Makes a folder whose path begins with `start`. Empty: it cannot be made.
std::string make_fresh(const std::string& start) {
  std::string pattern = start + "XXXXXX";
  return mkdtemp(pattern.data()) == nullptr ? std::string() : pattern;
}

/// One rank with what it prints.
struct RankWorker {
  Worker worker;
  std::array<WorkerOutput, 2> outputs;
  bool seen = false;    // Its end has been handled.
  std::string stuck{};  // Why it is ended although it did not fail, or empty.
  std::optional<std::chrono::nanoseconds> stopped_since{};  // Seen while others had ended.
};

/// All ranks of one attempt.
class Attempt {
 public:
  Attempt(const LaunchOptions& options,
          const RunFolders& folders,
          const Keeper& keeper,
          std::int32_t number)
      : options_(options),
        folders_(folders),
        keeper_(keeper),
        number_(number),
        logs_(options, folders, number),
        clock_(options.monitor_interval + kMostLate),
        silence_(options.silence, options.trace) {}

  ~Attempt() {
    for (RankWorker& seat : workers_) {
      if (seat.worker.is_running()) seat.worker.send(SIGKILL);
    }
    for (RankWorker& seat : workers_) {
      while (seat.worker.is_running()) seat.worker.look();
      for (const std::int32_t stream : {0, 1}) seat.worker.close_pipe(stream);
    }
  }

  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  Attempt(Attempt&&) = delete;
  Attempt& operator=(Attempt&&) = delete;

  Outcome start(const sigset_t& mask, std::ostream& out, std::ostream& err);

  /// Until every rank of this machine has ended. `stop` is the signal that asked for it, 0 = none.
  void watch(const SignalInbox& inbox, NodeGroup& group, int& stop);

  const std::vector<WorkerFailure>& failures() const { return failures_; }

 private:
  bool any_running() const;
  void wait_for_news(const SignalInbox& inbox, const NodeGroup& group) const;
  void read_pipes();
  void look(NodeGroup& group);
  void end_the_silent();
  void end_the_stopped();
  bool any_ended() const;
  void begin_to_stop(int signal);
  void end_by_force();

  const LaunchOptions& options_;
  const RunFolders& folders_;
  const Keeper& keeper_;
  std::int32_t number_;
  RankLogs logs_;
  WatchedClock clock_;
  Silence silence_;
  std::vector<RankWorker> workers_;
  std::vector<WorkerFailure> failures_;
  std::optional<std::chrono::nanoseconds> deadline_;  // Of a stop under way.
};

Outcome Attempt::start(const sigset_t& mask, std::ostream& out, std::ostream& err) {
  for (std::int32_t local = 0; local < options_.n_per_node; ++local) {
    if (Outcome added = logs_.add(local); !added.ok()) return added.error();
    WorkerSpec spec = {
        .command = command_of(options_, local),
        .variables = worker_environment(options_, folders_, local, number_, inherited),
        .files = logs_.files(local),
        .mask = mask,
        .keeper = keeper_.handle()};
    Result<Worker> worker = Worker::start(spec);
    if (!worker.ok()) return worker.error();
    workers_.push_back({worker.value(), logs_.outputs(local, out, err)});
  }
  return success();
}

bool Attempt::any_running() const {
  for (const RankWorker& seat : workers_) {
    if (seat.worker.is_running()) return true;
  }
  return false;
}

void Attempt::wait_for_news(const SignalInbox& inbox, const NodeGroup& group) const {
  std::vector<pollfd> handles = {{inbox.handle(), POLLIN, 0}};
  for (const int handle : group.handles()) handles.push_back({handle, POLLIN, 0});
  for (const RankWorker& seat : workers_) {
    for (const std::int32_t stream : {0, 1}) {
      if (seat.worker.pipe(stream) >= 0) handles.push_back({seat.worker.pipe(stream), POLLIN, 0});
    }
  }
  poll(handles.data(), handles.size(), static_cast<int>(options_.monitor_interval.count()));
}

void Attempt::read_pipes() {
  std::array<char, 65536> bytes{};
  for (RankWorker& seat : workers_) {
    for (const std::int32_t stream : {0, 1}) {
      ssize_t n = 1;
      // A rank that prints endlessly does not keep the others waiting.
      for (int turn = 0; turn < kMaxReads && n > 0 && seat.worker.pipe(stream) >= 0; ++turn) {
        n = read(seat.worker.pipe(stream), bytes.data(), bytes.size());
        WorkerOutput& output = seat.outputs[static_cast<std::size_t>(stream)];
        if (n > 0) output.write({bytes.data(), static_cast<std::size_t>(n)});
        if (n == 0) seat.worker.close_pipe(stream);
      }
    }
  }
}

void Attempt::look(NodeGroup& group) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    RankWorker& seat = workers_[i];
    seat.worker.look();
    if (seat.seen || seat.worker.is_running()) continue;
    seat.seen = true;
    keeper_.forget(seat.worker.pid());
    const bool stuck = !seat.stuck.empty();
    if (!stuck && (seat.worker.status() == 0 || deadline_)) continue;
    const auto local = static_cast<std::int32_t>(i);
    failures_.push_back({.rank = options_.node_rank * options_.n_per_node + local,
                         .local_rank = local,
                         .attempt = number_,
                         .pid = seat.worker.pid(),
                         .status = seat.worker.status(),
                         .message = stuck ? seat.stuck
                                          : read_error_file(rank_folder(folders_, number_, local) +
                                                            "/error.json")});
    group.report_failure(failures_.back());
  }
}

// Ranks that neither end nor continue.
void Attempt::end_the_silent() {
  const auto n_ended = std::count_if(
      workers_.begin(), workers_.end(), [](const RankWorker& seat) { return seat.seen; });
  const auto silent = silence_.look(static_cast<std::int32_t>(n_ended), clock_.now());
  if (!silent || deadline_) return;
  for (RankWorker& seat : workers_) {
    if (!seat.worker.is_running()) continue;
    seat.stuck = "gave no sign for " + std::to_string(silent->count()) + " seconds (" +
                 std::string(text_of(doing_of(seat.worker.pid()))) + ")";
  }
  begin_to_stop(SIGTERM);
}

bool Attempt::any_ended() const {
  return std::any_of(
      workers_.begin(), workers_.end(), [](const RankWorker& seat) { return seat.seen; });
}

// Whatever the program: where others have come to their end, well or not, a rank that was stopped from
// outside would be waited for until it is continued.
void Attempt::end_the_stopped() {
  if (deadline_ || !any_ended()) return;
  bool any = false;
  for (RankWorker& seat : workers_) {
    if (!seat.worker.is_running()) continue;
    if (doing_of(seat.worker.pid()) != Doing::kStopped) {
      seat.stopped_since.reset();
      continue;
    }
    if (!seat.stopped_since) seat.stopped_since = clock_.now();
    any = any || clock_.now() - *seat.stopped_since >= options_.grace;
  }
  if (any) begin_to_stop(SIGTERM);
}

// One that is stopped cannot make use of a grace, and may well be what the others have waited for.
void Attempt::begin_to_stop(int signal) {
  if (!deadline_) deadline_ = clock_.now() + options_.grace;
  for (RankWorker& seat : workers_) {
    if (!seat.worker.is_running()) continue;
    const bool stopped = doing_of(seat.worker.pid()) == Doing::kStopped;
    if (stopped && seat.stuck.empty()) seat.stuck = text_of(Doing::kStopped);
    seat.worker.send(stopped ? SIGKILL : signal);
  }
}

void Attempt::end_by_force() {
  for (const RankWorker& seat : workers_) {
    if (seat.worker.is_running()) seat.worker.send(SIGKILL);
  }
}

void Attempt::watch(const SignalInbox& inbox, NodeGroup& group, int& stop) {
  while (any_running()) {
    wait_for_news(inbox, group);
    clock_.look();
    read_pipes();
    if (const int signal = inbox.take(); signal != 0) {
      stop = signal;
      group.report_stopped(signal);
      begin_to_stop(signal);
    }
    look(group);
    group.serve();
    if (group.must_stop() && !deadline_) begin_to_stop(SIGTERM);
    end_the_silent();
    end_the_stopped();
    if (deadline_ && clock_.now() >= *deadline_) end_by_force();
  }
  read_pipes();
  for (RankWorker& seat : workers_) {
    for (WorkerOutput& output : seat.outputs) output.finish();
  }
}

/// Port and run id of a run that chooses them itself; otherwise the port must be free where rank 0
/// will use it.
Outcome settle_place(LaunchOptions& options) {
  if (options.run_id.empty()) {
    options.run_id = "lockstep-" + std::to_string(getpid()) + "-" +
                     std::to_string(Clock::now().time_since_epoch().count());
  }
  if (options.any_port) {
    const Result<std::int32_t> port = free_port();
    if (!port.ok()) return port.error();
    options.master_port = port.value();
    return success();
  }
  return options.node_rank == 0 ? check_port(options.master_port) : success();
}

// Ranks of one machine use the fresh folder as rendezvous; those of several use a folder
// that all of them see, which the user names.
Result<RunFolders> folders_of(const LaunchOptions& options, const std::string& fresh) {
  RunFolders folders;
  if (options.n_nodes == 1) folders.rendezvous = fresh + "/rendezvous";
  const bool thrown_away = options.log_dir == "/dev/null";
  std::string base = thrown_away ? std::string() : options.log_dir;
  const bool kept = options.redirects.any() || options.tee.any();
  if (base.empty() && kept && !thrown_away) base = make_fresh(below_tmpdir("lockstep-logs-"));
  if (base.empty()) base = fresh + "/logs";
  std::error_code failed;
  fs::create_directories(base, failed);
  if (failed) return Error{"cannot make the folder: " + failed.message(), base};
  // Several runs with one name, one after the other or at once, do not write into each other's files.
  folders.logs = make_fresh(base + "/" + options.run_id + "_");
  if (folders.logs.empty()) return Error{"cannot make a folder for the logs", base};
  return folders;
}

/// Until all machines know what comes next, or a signal says that this one does not continue.
void wait_for_next_move(const LaunchOptions& options,
                        const SignalInbox& inbox,
                        NodeGroup& group,
                        int& stop,
                        std::optional<Clock::time_point> until = std::nullopt) {
  group.serve();
  while (group.next() == NextMove::kUndecided && stop == 0) {
    std::vector<pollfd> handles = {{inbox.handle(), POLLIN, 0}};
    for (const int handle : group.handles()) handles.push_back({handle, POLLIN, 0});
    poll(handles.data(), handles.size(), static_cast<int>(options.monitor_interval.count()));
    stop = inbox.take();
    if (stop != 0) group.report_stopped(stop);
    group.serve();
    if (until && Clock::now() >= *until) return;
  }
}

/// The first synchronisation. False: the run is over before it began.
bool wait_for_all_nodes(const LaunchOptions& options,
                        const SignalInbox& inbox,
                        NodeGroup& group,
                        LaunchResult& result) {
  wait_for_next_move(options, inbox, group, result.signal, Clock::now() + options.join_timeout);
  if (group.next() != NextMove::kUndecided || result.signal != 0) return true;
  result.elsewhere = group.missing() + " did not arrive within " +
                     std::to_string(options.join_timeout.count() / 1000) + " seconds";
  return false;
}

/// Where the files are, if the options do not say it.
void tell_logs(const LaunchOptions& options, const RunFolders& folders, std::ostream& err) {
  if (!options.log_dir.empty() || !(options.redirects.any() || options.tee.any())) return;
  err << "lockstep launch: the logs of this run are in " << folders.logs << "\n";
}

void tell_restart(const LaunchOptions& options, const NodeGroup& group, std::ostream& err) {
  if (group.attempt() == 0) return;
  err << "lockstep launch: " << group.restart_reason() << "; starting all ranks again (restart "
      << group.attempt() << " of " << options.max_restarts << ")\n";
}

/// What is known about a run that is over.
void conclude(const NodeGroup& group, LaunchResult& result) {
  result.ok = group.reason().empty() && result.signal == 0;
  if (!result.ok && result.failures.empty()) result.elsewhere = group.reason();
}

}  // namespace

Result<LaunchResult> launch(LaunchOptions options,
                            const Keeper& keeper,
                            std::ostream& out,
                            std::ostream& err) {
  if (Outcome settled = settle_place(options); !settled.ok()) return settled.error();
  const Result<std::unique_ptr<KeptFolder>> fresh =
      KeptFolder::make(keeper, below_tmpdir("lockstep-"));
  if (!fresh.ok()) return fresh.error();
  const Result<RunFolders> made_folders = folders_of(options, fresh.value()->path());
  if (!made_folders.ok()) return made_folders.error();
  const RunFolders& folders = made_folders.value();
  tell_logs(options, folders, err);
  if (options.notices && limits_threads(options, inherited)) {
    err << "lockstep launch: OMP_NUM_THREADS is not set; every rank gets 1 thread, so that "
        << options.n_per_node << " ranks do not crowd one machine\n";
  }
  const SignalInbox inbox(parse_signals(options.signals).value());
  Result<std::unique_ptr<NodeGroup>> made = make_node_group(options);
  if (!made.ok()) return made.error();
  NodeGroup& group = *made.value();
  LaunchResult result;
  if (!wait_for_all_nodes(options, inbox, group, result)) return result;
  while (group.next() == NextMove::kStart && result.signal == 0) {
    tell_restart(options, group, err);
    group.begin();
    Attempt attempt(options, folders, keeper, group.attempt());
    ++result.attempts;
    if (Outcome started = attempt.start(inbox.before(), out, err); !started.ok()) {
      return started.error();
    }
    attempt.watch(inbox, group, result.signal);
    result.failures = attempt.failures();
    group.report_ended();
    wait_for_next_move(options, inbox, group, result.signal);
  }
  if (!group.refused().empty()) return Error{group.refused(), {}};
  conclude(group, result);
  return result;
}

}  // namespace lockstep::launch
