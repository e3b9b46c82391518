#include "lockstep/sim/fault/injector.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

bool kills_at_once(const Fault& fault) {
  if (fault.kind == FaultKind::kSigterm) return fault.grace.ns == 0;
  return fault.kind == FaultKind::kSigkill || fault.kind == FaultKind::kOutOfMemory ||
         fault.kind == FaultKind::kTornWrite;
}

/// Whether the fault waits for events like this one.
bool is_place_of(const Fault& fault, const Event& event) {
  if (!fault.at || (fault.step && *fault.step != event.at.opt)) return false;
  if (!fault.at->includes(event)) return false;
  const auto* call = std::get_if<CollectiveEvent>(&event.body);
  if (call == nullptr) return true;
  return (fault.when == CollectivePhase::kPosted) == (call->phase == CollectivePhase::kPosted);
}

}  // namespace

/// One rank's way to the disk.
class FaultInjector::Files final : public FileSystem {
 public:
  Files(FaultInjector& injector, Rank rank) : injector_(&injector), rank_(rank) {}

  Result<std::string> read(std::string_view path) override {
    if (injector_->before_file_step(rank_)) return gone(path);
    return disk().read(path);
  }

  Outcome write(std::string_view path, std::string_view bytes) override {
    const bool torn = injector_->tears(rank_);
    const bool dead = injector_->before_file_step(rank_);
    if (torn)
      (void)disk().write(path, bytes.substr(0, bytes.size() / 2));  // No rank is left to see it.
    if (dead) return gone(path);
    return disk().write(path, bytes);
  }

  Outcome sync(std::string_view path) override {
    if (injector_->before_file_step(rank_)) return gone(path);
    return disk().sync(path);
  }

  Outcome rename(std::string_view from, std::string_view to) override {
    if (injector_->before_file_step(rank_)) return gone(to);
    return disk().rename(from, to);
  }

  Outcome remove(std::string_view path) override {
    if (injector_->before_file_step(rank_)) return gone(path);
    return disk().remove(path);
  }

  Result<std::vector<std::string>> list(std::string_view folder) override {
    if (injector_->before_file_step(rank_)) return gone(folder);
    return disk().list(folder);
  }

  Outcome make_folder(std::string_view folder) override {
    if (injector_->before_file_step(rank_)) return gone(folder);
    return disk().make_folder(folder);
  }

 private:
  static Error gone(std::string_view path) { return {"the rank was killed", std::string(path)}; }

  VirtualDisk& disk() const { return *injector_->ranks_[to_index(rank_)].disk; }

  FaultInjector* injector_;
  Rank rank_;
};

FaultInjector::FaultInjector(World& world, std::vector<Fault> faults, EventSink& next)
    : world_(&world),
      faults_(std::move(faults)),
      done_(faults_.size(), 0),
      n_places_(faults_.size(), 0),
      next_(&next) {}

FaultInjector::~FaultInjector() = default;

std::vector<FileSystem*> FaultInjector::files() {
  std::vector<FileSystem*> views;
  for (Files& files : files_) views.push_back(&files);
  return views;
}

void FaultInjector::prepare(std::span<VirtualDisk* const> disks) {
  ranks_.resize(disks.size());
  for (std::size_t rank = 0; rank < disks.size(); ++rank) {
    ranks_[rank].disk = disks[rank];
    files_.emplace_back(*this, Rank{static_cast<std::int32_t>(rank)});
  }
}

void FaultInjector::open(Rank rank, Recorder* recorder) {
  if (recorder != nullptr) recorders_[rank] = recorder;
  if (std::exchange(timers_set_, true)) return;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].rank >= world_->n_ranks()) continue;
    if (faults_[i].time) world_->at(*faults_[i].time, [this, i] { strike(i); });
  }
}

void FaultInjector::on_event(const Event& event, const NameTable& names) {
  PerRank& rank = ranks_[to_index(event.rank)];
  if (rank.n_recorded == 0) rank.first_index = event.index;
  const bool is_end = std::holds_alternative<EndEvent>(event.body);
  if (rank.killed && !is_end) return;
  Event seen = event;
  if (rank.killed) seen.index = rank.first_index + rank.n_recorded;
  next_->on_event(seen, names);
  // Values share the index of their event: whether they are recorded must move nothing.
  if (std::holds_alternative<ValueEvent>(event.body)) return;
  ++rank.n_recorded;
  if (std::holds_alternative<FaultEvent>(event.body)) return;
  const std::uint64_t number = rank.n_events++;
  call_ = std::get_if<CollectiveEvent>(&event.body);
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (done_[i] != 0 || Rank{fault.rank} != event.rank) continue;
    if (fault.event == number) strike(i);
    if (is_place_of(fault, event) && n_places_[i]++ == fault.nth) strike(i);
  }
  call_ = nullptr;
}

bool FaultInjector::tears(Rank rank) const {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (done_[i] == 0 && fault.kind == FaultKind::kTornWrite && Rank{fault.rank} == rank &&
        fault.file_step == ranks_[to_index(rank)].n_file_steps) {
      return true;
    }
  }
  return false;
}

bool FaultInjector::before_file_step(Rank rank) {
  const std::uint64_t number = ranks_[to_index(rank)].n_file_steps++;
  bool dead = false;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (done_[i] != 0 || Rank{fault.rank} != rank || fault.file_step != number) continue;
    strike(i);
    dead = dead || kills_at_once(fault);
  }
  return dead;
}

void FaultInjector::strike(std::size_t index) {
  if (done_[index] != 0) return;
  done_[index] = 1;
  const Fault& fault = faults_[index];
  if (world_->has_ended(Rank{fault.rank})) return;
  struck_.push_back(fault);
  const auto recorder = recorders_.find(Rank{fault.rank});
  if (recorder != recorders_.end()) {
    NameTable& names = recorder->second->names();
    recorder->second->record(FaultEvent{.kind = names.intern(name_of(fault.kind)),
                                        .detail = names.intern(describe(fault))});
  }
  strike_rank(fault);
}

void FaultInjector::strike_rank(const Fault& fault) {
  const Rank rank{fault.rank};
  switch (fault.kind) {
    case FaultKind::kException:
    case FaultKind::kExit:
      world_->interrupt(rank, [text = describe(fault)](RankHandle&) {
        throw InjectedFault("injected fault: " + text);
      });
      return;
    case FaultKind::kSigterm:
      return terminate(fault);
    case FaultKind::kSigkill:
    case FaultKind::kOutOfMemory:
    case FaultKind::kTornWrite:
      ranks_[to_index(rank)].killed = true;
      world_->kill(rank, "injected fault: " + describe(fault));
      return;
    case FaultKind::kHang:
      // What it was about to wait for may wake it: that is not an end of the hang.
      world_->interrupt(rank, [](RankHandle& self) {
        for (;;) self.block({.what = "an injected hang"});
      });
      return;
    case FaultKind::kLate:
      world_->interrupt(rank, [delay = fault.delay](RankHandle& self) { self.sleep(delay); });
      return;
    case FaultKind::kLost:
    case FaultKind::kDelayed:
    case FaultKind::kDuplicated:
    case FaultKind::kCorrupted:
    case FaultKind::kStale:
      return tamper(fault);
    case FaultKind::kSlow:
      return slow_down(fault);
    case FaultKind::kDiskFull: {
      VirtualDisk& disk = *ranks_[to_index(rank)].disk;
      disk.set_capacity(disk.n_bytes());
      return;
    }
  }
}

// A rank that handles the signal may finish meanwhile; one that does not dies at once.
void FaultInjector::terminate(const Fault& fault) {
  const auto end = [this, fault] {
    if (world_->has_ended(Rank{fault.rank})) return;
    ranks_[to_index(Rank{fault.rank})].killed = true;
    world_->kill(Rank{fault.rank}, "injected fault: " + describe(fault));
  };
  if (fault.grace.ns == 0) return end();
  world_->at(world_->now() + fault.grace, end);
}

// What is recorded as posted is about to be matched.
void FaultInjector::tamper(const Fault& fault) {
  LOCKSTEP_CHECK(targets_ != nullptr, "contribution faults have a target");
  if (call_ == nullptr || call_->phase != CollectivePhase::kPosted) return;
  const auto first = static_cast<std::uint8_t>(FaultKind::kLost);
  const auto kind = static_cast<std::uint8_t>(static_cast<std::uint8_t>(fault.kind) - first);
  targets_->tamper({.kind = static_cast<ContributionFault::Kind>(kind),
                    .rank = Rank{fault.rank},
                    .group = call_->group,
                    .seq = call_->seq,
                    .delay = fault.delay,
                    .element = fault.element,
                    .bit = fault.bit,
                    .result = fault.result});
}

void FaultInjector::slow_down(const Fault& fault) {
  LOCKSTEP_CHECK(targets_ != nullptr, "a slow rank has a target that sets its pace");
  targets_->set_pace(Rank{fault.rank}, fault.permille);
  if (fault.lasting.ns == 0) return;
  world_->at(
      world_->now() + fault.lasting,
      [this, rank = Rank{fault.rank}] { targets_->set_pace(rank, 1000); },
      true);
}

}  // namespace lockstep::sim
