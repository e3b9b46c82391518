#include "lockstep/real/launch/node_group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/real/launch/line_socket.h"

namespace lockstep::launch {

namespace {

// A line is a word and its arguments.
constexpr std::string_view kHello = "lockstep-launch-1";  // NODE NODES RANKS RESTARTS RUN_ID
constexpr std::string_view kFailed = "failed";            // REASON: a rank of the sender did
constexpr std::string_view kEnded = "ended";              // The sender's ranks are all gone.
constexpr std::string_view kStopped = "stopped";          // REASON: the sender will not continue
constexpr std::string_view kRefused = "refused";          // REASON
constexpr std::string_view kStart = "start";              // ATTEMPT REASON
constexpr std::string_view kStop = "stop";                // REASON
constexpr std::string_view kOver = "over";                // REASON, or nothing when all is well

struct Message {
  std::string word;
  std::string rest;
};

Message message_of(const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return {line, {}};
  return {line.substr(0, space), line.substr(space + 1)};
}

std::string line_of(std::string_view word, const std::string& rest) {
  return rest.empty() ? std::string(word) : std::string(word) + " " + rest;
}

std::string reason_of(const WorkerFailure& failure) {
  return status_text(failure.status) + " of rank " + std::to_string(failure.rank);
}

std::string reason_of(std::int32_t node, int signal) {
  return "the launcher of node " + std::to_string(node) + " was stopped by " + status_text(-signal);
}

/// What launchers of one job have in common.
std::string job_of(const LaunchOptions& options) {
  return std::to_string(options.n_nodes) + " " + std::to_string(options.n_per_node) + " " +
         std::to_string(options.max_restarts) + " " + options.run_id;
}

/// Node 0.
class Leader final : public NodeGroup {
 public:
  Leader(const LaunchOptions& options, std::optional<Listener> listener)
      : options_(options), listener_(std::move(listener)) {
    decide();
  }

  std::vector<int> handles() const override {
    std::vector<int> handles;
    if (listener_) handles.push_back(listener_->handle());
    for (const LineSocket& stranger : strangers_) handles.push_back(stranger.handle());
    for (const auto& [node, follower] : followers_) {
      if (follower.socket.is_open()) handles.push_back(follower.socket.handle());
    }
    return handles;
  }

  void serve() override {
    if (next_ == NextMove::kEnd) return;  // Followers go away then, as they should.
    meet_strangers();
    for (auto& [node, follower] : followers_) handle_messages(node, follower);
    decide();
  }

  void report_failure(const WorkerFailure& failure) override {
    note_failure(reason_of(failure));
    decide();
  }

  void report_ended() override {
    ended_ = true;
    decide();
  }

  void report_stopped(int signal) override {
    give_up(reason_of(0, signal));
    decide();
  }

  std::string missing() const override {
    std::vector<std::int32_t> nodes;
    for (std::int32_t node = 1; node < options_.n_nodes; ++node) {
      if (!followers_.contains(node)) nodes.push_back(node);
    }
    return (nodes.size() == 1 ? "node " : "nodes ") + join(nodes);
  }

 private:
  struct Follower {
    LineSocket socket;
    bool ended = false;  // Its ranks are gone.
  };

  void meet_strangers() {
    if (!listener_) return;
    while (std::optional<LineSocket> stranger = listener_->accept()) {
      strangers_.push_back(std::move(*stranger));
    }
    for (LineSocket& stranger : strangers_) {
      for (const std::string& line : stranger.receive()) {
        if (!stranger.is_open()) break;
        greet(stranger, message_of(line));
        if (!stranger.is_open()) break;
      }
    }
    std::erase_if(strangers_, [](const LineSocket& stranger) { return !stranger.is_open(); });
  }

  /// Makes a follower of a launcher that belongs to the job; others get the reason why not.
  void greet(LineSocket& stranger, const Message& message) {
    const std::size_t space = message.rest.find(' ');
    const std::optional<std::int64_t> node = parse_int(message.rest.substr(0, space));
    std::string complaint;
    if (message.word != kHello || space == std::string::npos || !node) {
      complaint = "it is not a launcher of this version";
    } else if (message.rest.substr(space + 1) != job_of(options_)) {
      complaint = "node 0 has other --nnodes, --nproc-per-node, --max-restarts or --rdzv-id";
    } else if (*node < 1 || *node >= options_.n_nodes) {
      complaint = "there is no node " + std::to_string(*node);
    } else if (followers_.contains(static_cast<std::int32_t>(*node))) {
      complaint = "there is a node " + std::to_string(*node) + " already";
    }
    if (!complaint.empty()) {
      stranger.send(line_of(kRefused, complaint));
      const LineSocket dropped = std::move(stranger);
      return;
    }
    followers_.emplace(static_cast<std::int32_t>(*node), Follower{std::move(stranger)});
  }

  void handle_messages(std::int32_t node, Follower& follower) {
    if (!follower.socket.is_open()) return;
    for (const std::string& line : follower.socket.receive()) {
      const Message message = message_of(line);
      if (message.word == kFailed) note_failure(message.rest);
      if (message.word == kEnded) follower.ended = true;
      if (message.word == kStopped) give_up(message.rest);
    }
    if (follower.socket.is_open()) return;
    follower.ended = true;
    give_up("the launcher of node " + std::to_string(node) + " is gone");
  }

  void note_failure(const std::string& reason) {
    failed_ = true;
    if (reason_.empty()) reason_ = reason;
    stop_all();
  }

  void give_up(const std::string& reason) {
    final_ = true;
    note_failure(reason);
  }

  void stop_all() {
    if (must_stop_) return;
    must_stop_ = true;
    tell_all(kStop, reason_);
  }

  void tell_all(std::string_view word, const std::string& rest) {
    for (auto& [node, follower] : followers_) follower.socket.send(line_of(word, rest));
  }

  void decide() {
    if (next_ != NextMove::kUndecided) return;
    if (attempt_ < 0 && final_) return end();
    if (attempt_ < 0) {
      if (std::cmp_equal(followers_.size() + 1, options_.n_nodes)) start();
      return;
    }
    const bool all_ended =
        ended_ && std::all_of(followers_.begin(), followers_.end(), [](const auto& follower) {
          return follower.second.ended;
        });
    if (!all_ended) return;
    if (failed_ && !final_ && attempt_ < options_.max_restarts) return start();
    end();
  }

  void start() {
    ++attempt_;
    next_ = NextMove::kStart;
    tell_all(kStart, std::to_string(attempt_) + " " + reason_);
    must_stop_ = false;
    failed_ = false;
    ended_ = false;
    for (auto& [node, follower] : followers_) follower.ended = false;
    restart_reason_ = std::exchange(reason_, {});
  }

  void end() {
    next_ = NextMove::kEnd;
    tell_all(kOver, reason_);
  }

  const LaunchOptions& options_;
  std::optional<Listener> listener_;
  std::vector<LineSocket> strangers_;  // Connected, and have not said who they are.
  std::map<std::int32_t, Follower> followers_;
  bool ended_ = false;   // The ranks of this machine are gone.
  bool failed_ = false;  // Some rank did, in this attempt.
  bool final_ = false;   // No restart helps.
};

/// Any other node.
class FollowerNode final : public NodeGroup {
 public:
  explicit FollowerNode(const LaunchOptions& options) : options_(options) {}

  std::vector<int> handles() const override {
    if (!leader_ || !leader_->is_open()) return {};
    return {leader_->handle()};
  }

  void serve() override {
    if (next_ == NextMove::kEnd) return;
    if (!leader_ && !connect()) return;
    for (const std::string& line : leader_->receive()) obey(message_of(line));
    if (leader_->is_open() || next_ == NextMove::kEnd) return;
    if (reason_.empty()) reason_ = "the launcher of node 0 is gone";
    finish();
  }

  void report_failure(const WorkerFailure& failure) override { tell(kFailed, reason_of(failure)); }

  void report_ended() override { tell(kEnded, {}); }

  void report_stopped(int signal) override {
    reason_ = reason_of(options_.node_rank, signal);
    tell(kStopped, reason_);
    finish();
  }

  std::string missing() const override { return "node 0"; }

 private:
  bool connect() {
    auto connected = LineSocket::connect(options_.master_addr, launcher_port(options_));
    if (!connected.ok()) {
      refused_ = connected.error().message;
      finish();
      return false;
    }
    leader_ = std::move(connected).value();
    if (leader_) tell(kHello, std::to_string(options_.node_rank) + " " + job_of(options_));
    return leader_.has_value();
  }

  void tell(std::string_view word, const std::string& rest) {
    if (leader_) leader_->send(line_of(word, rest));
  }

  void obey(const Message& message) {
    if (message.word == kStart) {
      const Message start = message_of(message.rest);
      attempt_ = static_cast<std::int32_t>(parse_int(start.word).value_or(0));
      restart_reason_ = start.rest;
      reason_.clear();
      must_stop_ = false;
      next_ = NextMove::kStart;
    } else if (message.word == kStop) {
      reason_ = message.rest;
      must_stop_ = true;
    } else if (message.word == kOver) {
      reason_ = message.rest;
      finish();
    } else if (message.word == kRefused) {
      refused_ = "the launcher of node 0 refuses this one: " + message.rest;
      finish();
    }
  }

  void finish() {
    must_stop_ = true;
    next_ = NextMove::kEnd;
  }

  const LaunchOptions& options_;
  std::optional<LineSocket> leader_;
};

}  // namespace

Result<std::unique_ptr<NodeGroup>> make_node_group(const LaunchOptions& options) {
  if (options.node_rank > 0) {
    return std::unique_ptr<NodeGroup>(std::make_unique<FollowerNode>(options));
  }
  std::optional<Listener> listener;
  if (options.n_nodes > 1) {
    Result<Listener> opened = Listener::open(launcher_port(options));
    if (!opened.ok()) return opened.error();
    listener.emplace(std::move(opened).value());
  }
  return std::unique_ptr<NodeGroup>(std::make_unique<Leader>(options, std::move(listener)));
}

}  // namespace lockstep::launch
