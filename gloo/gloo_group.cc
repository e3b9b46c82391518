#include "lockstep/gloo/gloo_group.h"

#include <map>
#include <new>
#include <thread>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/gloo/detail/connection.h"
#include "lockstep/gloo/detail/runner.h"
#include "lockstep/gloo/rendezvous.h"

namespace lockstep::gloo {

namespace {

class GlooGroup;

/// The rank's side of one posted operation. Lives on the rank's thread; the task is what the
/// group's thread shares with it.
class GlooWork final : public WorkState {
 public:
  GlooWork(const GlooWork&) = delete;
  GlooWork& operator=(const GlooWork&) = delete;
  GlooWork(GlooWork&&) = delete;
  GlooWork& operator=(GlooWork&&) = delete;

  static GlooWork* make(GlooGroup& group, const CollectiveCall& call, std::int64_t seq);

  bool is_completed() override;
  CommStatus wait() override;

  std::string detail() const override { return detail_; }

  void use(std::shared_ptr<Task> task) { task_ = std::move(task); }

  void use(std::unique_ptr<Connection::Message> message) { message_ = std::move(message); }

  const CollectiveCall& call() const { return call_; }

  void learn_sender(std::int32_t peer) {
    call_.signature.peer = peer;
    set_peer(peer);
  }

  /// Nobody but its group holds it, and it would not block: it can be closed.
  bool is_forgotten() const { return use_count() == 1 && task_ != nullptr && task_->is_done(); }

  /// The group goes away: collectives are waited for, messages that nobody waited for are given up.
  void end();

 private:
  friend class GlooGroup;

  GlooWork(GlooGroup& group, const CollectiveCall& call, std::int64_t seq);
  ~GlooWork() override;
  void destroy() override;
  void watch_message();

  GlooGroup* group_;
  Runtime* runtime_;
  CollectiveCall call_;  // Without buffers.
  std::int64_t seq_;
  std::shared_ptr<Task> task_;
  std::unique_ptr<Connection::Message> message_;
  std::thread watcher_;  // Of a message that somebody polls.
  bool waited_ = false;
  CommStatus status_ = CommStatus::kOk;
  std::string detail_;
};

/// What all groups of one process share.
struct Family {
  ConnectionOptions options;  // Of the world.
  std::int64_t last_id = 0;
};

class GlooGroup final : public ProcessGroup {
 public:
  GlooGroup(Runtime& runtime,
            std::shared_ptr<Family> family,
            std::shared_ptr<Connection> connection,
            std::int32_t id,
            std::int32_t rank,
            std::vector<std::int32_t> members)
      : runtime_(&runtime),
        family_(std::move(family)),
        connection_(std::move(connection)),
        id_(id),
        rank_(rank),
        members_(std::move(members)) {}

  ~GlooGroup() override {
    // What was posted completes, as c10d's destructor lets it; then it is told.
    while (!open_.empty()) Ref<GlooWork>(open_.front())->end();
  }

  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;
  GlooGroup(GlooGroup&&) = delete;
  GlooGroup& operator=(GlooGroup&&) = delete;

  std::int32_t rank() const override { return rank_; }

  std::int32_t size() const override { return static_cast<std::int32_t>(members_.size()); }

  std::int32_t id() const override { return id_; }

  Rank world_rank(std::int32_t group_rank) const override {
    LOCKSTEP_CHECK(group_rank >= 0 && group_rank < size(),
                   "a group rank is below the group's size");
    return Rank{members_[static_cast<std::size_t>(group_rank)]};
  }

  std::string_view backend() const override { return "gloo"; }

  std::string_view reduction_order() const override { return "gloo-ring"; }

  Runtime& runtime() override { return *runtime_; }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> group_ranks,
                                      CallSite site) override;

  // -- of works
  void close(GlooWork& work, const Ending& ending);

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
  std::vector<Ref<GlooWork>> open_;  // Not told to be completed yet, in the order of posting.
  Runner runner_;                    // Last: its end finishes tasks that use the connection.
};

// ---- works

GlooWork::GlooWork(GlooGroup& group, const CollectiveCall& call, std::int64_t seq)
    : WorkState(call.signature),
      group_(&group),
      runtime_(&group.runtime()),
      call_(call),
      seq_(seq) {
  call_.inputs = {};
  call_.outputs = {};
}

GlooWork::~GlooWork() {
  if (watcher_.joinable()) watcher_.join();
}

GlooWork* GlooWork::make(GlooGroup& group, const CollectiveCall& call, std::int64_t seq) {
  void* block = group.runtime().pool().allocate(sizeof(GlooWork));
  return new (block) GlooWork(group, call, seq);
}

void GlooWork::destroy() {
  Runtime* runtime = runtime_;
  this->~GlooWork();
  runtime->pool().release(this, sizeof(GlooWork));
}

// A message has no thread of its own until somebody asks how it is doing.
void GlooWork::watch_message() {
  if (message_ == nullptr || task_ != nullptr) return;
  task_ = std::make_shared<Task>([message = message_.get()] { return message->wait(); });
  watcher_ = std::thread([task = task_] { task->run(); });
}

bool GlooWork::is_completed() {
  if (waited_) return true;
  watch_message();
  return task_->is_done();
}

CommStatus GlooWork::wait() {
  if (waited_) return status_;
  const Ending ending = task_ != nullptr ? task_->wait() : message_->wait();
  waited_ = true;
  status_ = ending.status;
  detail_ = ending.detail;
  if (group_ != nullptr) std::exchange(group_, nullptr)->close(*this, ending);
  return status_;
}

void GlooWork::end() {
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

bool is_from_anybody(const Signature& signature) {
  return signature.op == CollectiveOp::kRecv && signature.peer < 0;
}

void GlooGroup::close(GlooWork& work, const Ending& ending) {
  if (ending.peer >= 0) {
    work.learn_sender(ending.peer);
    work.seq_ = next_number(work.call().signature);
    record_posted(work.call(), work.seq_);
  }
  if (!is_from_anybody(work.call().signature)) {
    record_completed(work.call(), work.seq_, ending.status);
  }
  std::erase(open_, Ref<GlooWork>(&work));
}

// Dropped works complete without anybody waiting for them; now and then they are told.
void GlooGroup::close_forgotten() {
  constexpr std::size_t kMany = 64;
  if (open_.size() < kMany) return;
  std::vector<Ref<GlooWork>> forgotten;
  for (const Ref<GlooWork>& work : open_) {
    if (work->is_forgotten()) forgotten.push_back(work);
  }
  for (const Ref<GlooWork>& work : forgotten) (void)work->wait();
}

std::int64_t GlooGroup::next_number(const Signature& signature) {
  if (signature.op == CollectiveOp::kSend) return n_sent_[{signature.peer, signature.tag}]++;
  if (signature.op == CollectiveOp::kRecv) return n_received_[{signature.peer, signature.tag}]++;
  return n_posted_++;
}

// One buffer a rank, also where the call hands in one that holds all parts.
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
                      .timeout = std::chrono::milliseconds(call.timeout.ns / 1'000'000)};
  const CollectiveOp op = call.signature.op;
  if (op == CollectiveOp::kAllGather) operation.outputs = parts_of(call.outputs, n_ranks);
  if (op == CollectiveOp::kReduceScatter) operation.inputs = parts_of(call.inputs, n_ranks);
  return operation;
}

Work GlooGroup::post(const CollectiveCall& call) {
  // A recv from anybody is told once its sender is known.
  const bool known = !is_from_anybody(call.signature);
  const std::int64_t seq = known ? next_number(call.signature) : 0;
  if (known) record_posted(call, seq);
  Operation operation = operation_of(call, size(), static_cast<std::uint32_t>(seq));
  Ref<GlooWork> work(GlooWork::make(*this, call, seq));
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

std::unique_ptr<ProcessGroup> GlooGroup::split(std::span<const std::int32_t> group_ranks,
                                               CallSite /*site*/) {
  // Everything posted so far comes first, and the number of the new group is agreed on, since
  // members of other groups may have made more of them.
  const std::int64_t seq = n_posted_++;
  std::int64_t id = 0;
  std::string failure;
  auto agree = std::make_shared<Task>([&]() -> Ending {
    const Result<std::int64_t> largest =
        connection_->largest(family_->last_id, static_cast<std::uint32_t>(seq));
    if (!largest.ok()) return {CommStatus::kPeerLost, largest.error().text()};
    id = largest.value() + 1;
    return {};
  });
  runner_.post(agree);
  const Signature signature{.op = CollectiveOp::kBarrier};
  if (const Ending& ending = agree->wait(); ending.status != CommStatus::kOk) {
    throw CommError(ending.status, signature, ending.detail);
  }
  family_->last_id = id;
  std::vector<std::int32_t> members;
  members.reserve(group_ranks.size());
  std::string name = "group-" + std::to_string(id);
  std::int32_t own_rank = -1;
  for (std::size_t i = 0; i < group_ranks.size(); ++i) {
    members.push_back(to_int(world_rank(group_ranks[i])));
    name += "-" + std::to_string(members.back());
    if (group_ranks[i] == rank_) own_rank = static_cast<std::int32_t>(i);
  }
  if (own_rank < 0) return nullptr;
  ConnectionOptions options = family_->options;
  options.rank = own_rank;
  options.size = static_cast<std::int32_t>(members.size());
  options.name = name;
  options.world_ranks = members;
  Result<std::shared_ptr<Connection>> connection = open_connection(options);
  if (!connection.ok()) {
    throw CommError(CommStatus::kPeerLost, signature, connection.error().text());
  }
  return std::make_unique<GlooGroup>(*runtime_,
                                     family_,
                                     std::move(connection).value(),
                                     static_cast<std::int32_t>(id),
                                     own_rank,
                                     std::move(members));
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> connect(const GlooOptions& options, Runtime& runtime) {
  LOCKSTEP_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size,
                 "a rank is below the size of its world");
  const Result<std::string> folder =
      sign_in(options.rendezvous, options.rank, options.size, options.timeout);
  if (!folder.ok()) return folder.error();
  auto family = std::make_shared<Family>();
  std::vector<std::int32_t> members(static_cast<std::size_t>(options.size));
  for (std::int32_t r = 0; r < options.size; ++r) members[static_cast<std::size_t>(r)] = r;
  family->options = {.rank = options.rank,
                     .size = options.size,
                     .folder = folder.value(),
                     .name = "world",
                     .host_name = options.host_name,
                     .timeout = options.timeout,
                     .check_signatures = options.check_signatures,
                     .world_ranks = members};
  Result<std::shared_ptr<Connection>> connection = open_connection(family->options);
  if (!connection.ok()) return connection.error();
  std::unique_ptr<ProcessGroup> group = std::make_unique<GlooGroup>(runtime,
                                                                    std::move(family),
                                                                    std::move(connection).value(),
                                                                    0,
                                                                    options.rank,
                                                                    std::move(members));
  return group;
}

}  // namespace lockstep::gloo
