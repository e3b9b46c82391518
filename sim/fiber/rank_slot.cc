#include "lockstep/sim/fiber/detail/rank_slot.h"

#include <algorithm>
#include <exception>

#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

namespace {

// A rank that swallows its own death this often will not stop by itself.
constexpr std::int32_t kMaxNotices = 1000;

std::uint64_t footprint_of(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash | 1U;
}

}  // namespace

Result<std::string> RankFiles::read(std::string_view path) {
  slot_->point({PointKind::kFile, footprint_of(path)});
  return slot_->scheduler_->files().read(path);
}

Outcome RankFiles::publish(std::string_view path, std::string_view bytes) {
  slot_->point({PointKind::kFile, footprint_of(path)});
  if (slot_->fenced_) return Error{"the rank was killed", std::string(path)};
  return slot_->scheduler_->files().publish(path, bytes);
}

void RankSlot::open(Scheduler& scheduler, Rank rank) {
  scheduler_ = &scheduler;
  rank_ = rank;
}

World& RankSlot::world() const { return scheduler_->world(); }

bool RankSlot::dying() {
  if (!doomed_) return false;
  if (std::uncaught_exceptions() > 0) return true;
  if (++n_notices_ > kMaxNotices) scheduler_->abandon(*this);
  // Not a std::exception on purpose: user code must not swallow its own death.
  throw RankKilled(scheduler_->doom_of(rank_));  // NOLINT(hicpp-exception-baseclass)
}

void RankSlot::block(const WaitReason& reason) {
  if (dying()) return;
  scheduler_->block(*this, reason);
  dying();
}

VirtualTime RankSlot::now() const { return std::max(scheduler_->now(), VirtualTime{clock_ns_}); }

void RankSlot::sleep(Duration span) {
  if (dying()) return;
  scheduler_->sleep_until(*this, now() + span);
  dying();
}

void RankSlot::point(const Point& next) {
  if (dying()) return;
  if (clock_ns_ > scheduler_->now().ns) {
    scheduler_->sleep_until(*this, VirtualTime{clock_ns_});
  } else {
    scheduler_->yield(*this, next);
  }
  dying();
}

void RankSlot::spend(Duration compute) {
  if (scheduler_->options().timed) clock_ns_ = (now() + compute).ns;
}

Memo& RankSlot::memo() { return scheduler_->memo(); }

std::optional<std::string> RankSlot::environment(std::string_view name) const {
  for (const auto& [key, value] : scheduler_->options().environment) {
    if (key == name) return value;
  }
  if (name == "RANK" || name == "LOCAL_RANK") return std::to_string(to_int(rank_));
  if (name == "WORLD_SIZE") return std::to_string(scheduler_->n_ranks());
  return std::nullopt;
}

void RankSlot::log(std::string_view line) {
  if (!fenced_ && scheduler_->options().log) scheduler_->options().log(rank_, now(), line);
}

}  // namespace lockstep::sim
