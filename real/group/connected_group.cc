#include "lockstep/real/group/connected_group.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <new>
#include <thread>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/real/group/detail/runner.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::peers {

namespace {

class ConnectedGroup;

/// The rank's side of one posted operation. Lives on the rank's thread; the task is what the
/// group's thread shares with it.
class ConnectedWork final : public WorkState {
 public:
  ConnectedWork(const ConnectedWork&) = delete;
  ConnectedWork& operator=(const ConnectedWork&) = delete;
  ConnectedWork(ConnectedWork&&) = delete;
  ConnectedWork& operator=(ConnectedWork&&) = delete;

  static ConnectedWork* make(ConnectedGroup& group, const CollectiveCall& call, std::int64_t seq);

  const Signature& signature() const override { return signature_; }

  bool is_completed() override;
  CommStatus wait() override;

  std::string detail() const override { return detail_; }

  void use(std::shared_ptr<Task> task) { task_ = std::move(task); }

  void use(std::unique_ptr<Connection::Message> message) { message_ = std::move(message); }

  /// Without buffers.
  CollectiveCall call() const { return {signature_, {}, {}, wrapper_, timeout_}; }

  void learn_sender(std::int32_t peer) { signature_.peer = peer; }

  /// Only its group holds it, and it would not block: it can be closed.
  bool is_forgotten() const { return use_count() == 1 && task_ != nullptr && task_->is_done(); }

  /// The group goes away: collectives are waited for, messages without a waiter are dropped.
  void end();

 private:
  friend class ConnectedGroup;

  ConnectedWork(ConnectedGroup& group, const CollectiveCall& call, std::int64_t seq);
  ~ConnectedWork() override;
  void destroy() override;
  void watch_message();

  ConnectedGroup* group_;
  Runtime* runtime_;
  Signature signature_;
  std::int32_t wrapper_;
  Duration timeout_;
  std::int64_t seq_;
  std::shared_ptr<Task> task_;
  std::unique_ptr<Connection::Message> message_;
  std::thread watcher_;  // Of a message that is polled.
  bool waited_ = false;
  CommStatus status_ = CommStatus::kOk;
  std::string detail_;
};

/// What all groups of one process share.
struct Family {
  GroupNames names;
  Membership world;
  std::int64_t last_turn = 0;  ///< In which this rank has taken part.
};

/// A number that no other group of the job has. Groups of the world are numbered by turns, in which
/// every rank takes part. Parts of other groups may be made at the same time: each has its turn and its
/// lowest rank, which takes a turn for each group that it is made a member of.
std::int32_t number_of_group(std::int64_t turn,
                             std::int32_t parent,
                             std::span<const std::int32_t> world_ranks) {
  constexpr std::int64_t kMostTurns = std::int64_t{1} << 16U;
  const std::int64_t lowest =
      world_ranks.empty() ? 0 : *std::min_element(world_ranks.begin(), world_ranks.end());
  LOCKSTEP_CHECK(turn < kMostTurns && lowest + 1 < kMostTurns / 2,
                 fmt::format("group {} of a job in which rank {} takes part: 65,535 groups can be "
                             "made, and parts of groups on the first 32,766 ranks",
                             turn,
                             lowest));
  return static_cast<std::int32_t>(parent == 0 ? turn : turn + (lowest + 1) * kMostTurns);
}

class ConnectedGroup final : public ProcessGroup {
 public:
  ConnectedGroup(Runtime& runtime,
                 std::shared_ptr<Family> family,
                 std::shared_ptr<Connection> connection,
                 std::int32_t id,
                 const Membership& member)
      : runtime_(&runtime),
        family_(std::move(family)),
        connection_(std::move(connection)),
        id_(id),
        rank_(member.rank),
        members_(member.world_ranks) {}

  ~ConnectedGroup() override {
    // What was posted completes, as c10d's destructor lets it; then it is recorded.
    while (!open_.empty()) Ref<ConnectedWork>(open_.front())->end();
  }

  // There it completes as well: the group's thread may be writing into that memory.
  void abandon(std::int32_t wrapper) override {
    const std::vector<Ref<ConnectedWork>> open = open_;
    for (const Ref<ConnectedWork>& work : open) {
      if (work->call().wrapper == wrapper) work->end();
    }
  }

  ConnectedGroup(const ConnectedGroup&) = delete;
  ConnectedGroup& operator=(const ConnectedGroup&) = delete;
  ConnectedGroup(ConnectedGroup&&) = delete;
  ConnectedGroup& operator=(ConnectedGroup&&) = delete;

  std::int32_t rank() const override { return rank_; }

  std::int32_t size() const override { return static_cast<std::int32_t>(members_.size()); }

  std::int32_t id() const override { return id_; }

  Rank world_rank(std::int32_t group_rank) const override {
    LOCKSTEP_CHECK(group_rank >= 0 && group_rank < size(),
                   fmt::format("no rank {} in this group: it has {} ranks", group_rank, size()));
    return Rank{members_[static_cast<std::size_t>(group_rank)]};
  }

  std::string_view backend() const override { return family_->names.backend; }

  std::string_view reduction_order() const override { return family_->names.reduction_order; }

  Runtime& runtime() override { return *runtime_; }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> group_ranks,
                                      CallSite site) override;

  // -- of works
  void close(ConnectedWork& work, const Completion& completion);

 protected:
  Work post(const CollectiveCall& call) override;

 private:
  std::int64_t next_number(const Signature& signature);
  void close_forgotten();

  Runtime* runtime_;
  std::shared_ptr<Family> family_;
  std::shared_ptr<Connection> connection_;
  std::int32_t id_;
  std::int32_t rank_;
  std::vector<std::int32_t> members_;
  std::int64_t n_posted_ = 0;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> n_sent_;  // By peer and tag.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> n_received_;
  std::vector<Ref<ConnectedWork>> open_;  // Not recorded as completed yet, in the order of posting.
  Runner runner_;                         // Last: its end finishes tasks that use the connection.
};

// ---- works

ConnectedWork::ConnectedWork(ConnectedGroup& group, const CollectiveCall& call, std::int64_t seq)
    : group_(&group),
      runtime_(&group.runtime()),
      signature_(call.signature),
      wrapper_(call.wrapper),
      timeout_(call.timeout),
      seq_(seq) {}

ConnectedWork::~ConnectedWork() {
  if (watcher_.joinable()) watcher_.join();
}

ConnectedWork* ConnectedWork::make(ConnectedGroup& group,
                                   const CollectiveCall& call,
                                   std::int64_t seq) {
  void* block = group.runtime().pool().allocate(sizeof(ConnectedWork));
  return new (block) ConnectedWork(group, call, seq);
}

void ConnectedWork::destroy() {
  Runtime* runtime = runtime_;
  this->~ConnectedWork();
  runtime->pool().release(this, sizeof(ConnectedWork));
}

// A message has no thread until its state is asked for.
void ConnectedWork::watch_message() {
  if (message_ == nullptr || task_ != nullptr) return;
  task_ = std::make_shared<Task>([message = message_.get()] { return message->wait(); });
  watcher_ = std::thread([task = task_] { task->run(); });
}

bool ConnectedWork::is_completed() {
  if (waited_) return true;
  watch_message();
  return task_->is_done();
}

CommStatus ConnectedWork::wait() {
  if (waited_) return status_;
  const Completion completion = task_ != nullptr ? task_->wait() : message_->wait();
  waited_ = true;
  status_ = completion.status;
  detail_ = completion.detail;
  if (group_ != nullptr) std::exchange(group_, nullptr)->close(*this, completion);
  return status_;
}

void ConnectedWork::end() {
  if (message_ == nullptr || (task_ != nullptr && task_->is_done())) {
    (void)wait();
    return;
  }
  waited_ = true;
  status_ = CommStatus::kAborted;
  detail_ = "its group is gone";
  std::exchange(group_, nullptr)->close(*this, {status_, detail_});
}

// ---- the group

bool is_from_any_source(const Signature& signature) {
  return signature.op == CollectiveOp::kRecv && signature.peer < 0;
}

void ConnectedGroup::close(ConnectedWork& work, const Completion& completion) {
  if (completion.peer >= 0) {
    work.learn_sender(completion.peer);
    work.seq_ = next_number(work.signature());
    record_posted(work.call(), work.seq_);
  }
  if (!is_from_any_source(work.signature())) {
    record_completed(work.call(), work.seq_, completion.status);
  }
  std::erase(open_, Ref<ConnectedWork>(&work));
}

// Dropped works complete without a wait; from time to time they are recorded.
void ConnectedGroup::close_forgotten() {
  constexpr std::size_t kMany = 64;
  if (open_.size() < kMany) return;
  std::vector<Ref<ConnectedWork>> forgotten;
  for (const Ref<ConnectedWork>& work : open_) {
    if (work->is_forgotten()) forgotten.push_back(work);
  }
  for (const Ref<ConnectedWork>& work : forgotten) (void)work->wait();
}

std::int64_t ConnectedGroup::next_number(const Signature& signature) {
  if (signature.op == CollectiveOp::kSend) return n_sent_[{signature.peer, signature.tag}]++;
  if (signature.op == CollectiveOp::kRecv) return n_received_[{signature.peer, signature.tag}]++;
  return n_posted_++;
}

// One buffer per rank, also where the call hands in one that holds all parts.
std::vector<Memory> parts_of(std::span<const Memory> buffers, std::int32_t n_ranks) {
  if (buffers.size() != 1 || n_ranks == 1) return {buffers.begin(), buffers.end()};
  std::vector<Memory> parts;
  parts.reserve(static_cast<std::size_t>(n_ranks));
  const std::int64_t count = buffers.front().count / n_ranks;
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    parts.push_back(buffers.front().slice(r * count, count));
  }
  return parts;
}

Operation operation_of(const CollectiveCall& call, std::int32_t n_ranks, std::uint32_t tag) {
  Operation operation{.signature = call.signature,
                      .inputs = {call.inputs.begin(), call.inputs.end()},
                      .outputs = {call.outputs.begin(), call.outputs.end()},
                      .tag = tag,
                      .timeout = std::chrono::milliseconds(call.timeout.ns / 1'000'000),
                      .token = nullptr};
  const CollectiveOp op = call.signature.op;
  if (op == CollectiveOp::kAllGather) operation.outputs = parts_of(call.outputs, n_ranks);
  if (op == CollectiveOp::kReduceScatter) operation.inputs = parts_of(call.inputs, n_ranks);
  return operation;
}

Work ConnectedGroup::post(const CollectiveCall& call) {
  const std::string refusal = connection_->refusal(call.signature);
  LOCKSTEP_CHECK(refusal.empty(), refusal);
  // A recv from any source is recorded once its sender is known.
  const bool known = !is_from_any_source(call.signature);
  const std::int64_t seq = known ? next_number(call.signature) : 0;
  if (known) record_posted(call, seq);
  Operation operation = operation_of(call, size(), static_cast<std::uint32_t>(seq));
  operation.token = connection_->mark();
  Ref<ConnectedWork> work(ConnectedWork::make(*this, call, seq));
  close_forgotten();
  open_.push_back(work);
  const bool message =
      call.signature.op == CollectiveOp::kSend || call.signature.op == CollectiveOp::kRecv;
  if (message) {
    work->use(connection_->start(operation));
  } else {
    auto task =
        std::make_shared<Task>([connection = connection_, operation = std::move(operation)] {
          return connection->run(operation);
        });
    work->use(task);
    runner_.post(std::move(task));
  }
  return Work(Ref<WorkState>(work.get()));
}

std::unique_ptr<ProcessGroup> ConnectedGroup::split(std::span<const std::int32_t> group_ranks,
                                                    CallSite /*site*/) {
  Membership member = family_->world;
  member.rank = -1;
  member.size = static_cast<std::int32_t>(group_ranks.size());
  member.world_ranks.clear();
  std::string suffix;
  for (std::size_t i = 0; i < group_ranks.size(); ++i) {
    member.world_ranks.push_back(to_int(world_rank(group_ranks[i])));
    suffix += "-" + std::to_string(member.world_ranks.back());
    if (group_ranks[i] == rank_) member.rank = static_cast<std::int32_t>(i);
  }
  // Everything posted so far comes first, and whose turn it is is agreed on, since members of other
  // groups may have made more of them.
  const std::int64_t seq = n_posted_++;
  std::int64_t turn = 0;
  std::shared_ptr<Connection> made;
  auto agree = std::make_shared<Task>([&]() -> Completion {
    const Result<std::int64_t> all_reduce_max =
        connection_->all_reduce_max(family_->last_turn, static_cast<std::uint32_t>(seq));
    if (!all_reduce_max.ok()) return {CommStatus::kPeerLost, all_reduce_max.error().text()};
    turn = all_reduce_max.value() + 1;
    member.id = number_of_group(turn, id(), member.world_ranks);
    member.name = "group-" + std::to_string(member.id) + suffix;
    Result<std::shared_ptr<Connection>> part = connection_->split(member);
    if (!part.ok()) return {CommStatus::kPeerLost, part.error().text()};
    made = std::move(part).value();
    return {};
  });
  runner_.post(agree);
  if (const Completion& completion = agree->wait(); completion.status != CommStatus::kOk) {
    throw CommError(completion.status, Signature{.op = CollectiveOp::kBarrier}, completion.detail);
  }
  family_->last_turn = turn;
  if (member.rank < 0) return nullptr;
  if (Recorder* const recorder = runtime_->recorder()) {
    recorder->record(GroupEvent{.group = member.id, .members = member.world_ranks});
  }
  return std::make_unique<ConnectedGroup>(*runtime_, family_, std::move(made), member.id, member);
}

}  // namespace

std::unique_ptr<ProcessGroup> make_connected_group(Runtime& runtime,
                                                   const GroupNames& names,
                                                   const Membership& member,
                                                   std::shared_ptr<Connection> connection) {
  auto family = std::make_shared<Family>();
  family->names = names;
  family->world = member;
  return std::make_unique<ConnectedGroup>(
      runtime, std::move(family), std::move(connection), 0, member);
}

}  // namespace lockstep::peers
