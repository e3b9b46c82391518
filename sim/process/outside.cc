#include "lockstep/sim/process/outside.h"

#include <algorithm>
#include <fmt/core.h>
#include <poll.h>

namespace lockstep::sim {

namespace {

constexpr std::int32_t kLookMs = 50;     // Between two looks at what the kernel says.
constexpr std::int32_t kStackMs = 2000;  // A process that waits answers within a millisecond.
constexpr std::int32_t kLongestExitMs = 10'000;  // After END: interpreters take their time.

constexpr int kSliceMs = 10;

/// Returns: how long it took, roughly: what comes early must not let a limit be missed forever.
int wait_a_slice(std::vector<pollfd>& descriptors) {
  return ::poll(descriptors.data(), descriptors.size(), kSliceMs) == 0 ? kSliceMs : 1;
}

}  // namespace

Outside::Outside(std::span<const std::unique_ptr<RankProcess>> processes,
                 const OutsideLimits& limits,
                 Interrupts& interrupts)
    : processes_(processes), limits_(limits), interrupts_(&interrupts), seats_(processes.size()) {}

void Outside::join(World& world) {
  world_ = &world;
  world.on_idle([this](bool at_end) { on_idle(at_end); });
}

void Outside::expect(Rank rank) {
  Seat& seat = seats_[to_index(rank)];
  if (!seat.expected && !seat.asleep) {
    const bool noted = seat.noted;
    seat = Seat{};
    seat.noted = noted;
  }
  seat.expected = true;
}

// Not one that a fault makes late, or that is about to die.
bool Outside::is_waiting(std::size_t index) const {
  return seats_[index].expected && world_->is_blocked(static_cast<Rank>(index));
}

bool Outside::any_asleep() const {
  return std::any_of(
      seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.expected && seat.asleep; });
}

void Outside::on_idle(bool at_end) {
  while (round(at_end)) continue;
}

// Requires: no rank can run. True: the wait goes on.
bool Outside::round(bool at_end) {
  std::vector<std::size_t> waited;
  bool any_due = false;
  bool all_asleep = true;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!is_waiting(i)) continue;
    process(i).read();
    if (process(i).is_due()) {
      any_due = true;
      continue;
    }
    all_asleep = all_asleep && seats_[i].asleep;
    waited.push_back(i);
  }
  if (check_interrupt()) return false;
  if (any_due && all_asleep) {
    wake_due();
    return false;
  }
  if (waited.empty()) return false;
  if (all_asleep && at_end && all_certain()) return false;
  pass(waited);
  const auto awake = [this](std::size_t i) { return !seats_[i].asleep || process(i).is_due(); };
  return at_end || std::any_of(waited.begin(), waited.end(), awake);
}

void Outside::wake_due() {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!is_waiting(i)) continue;
    if (!process(i).is_due()) {
      note_asleep(i);
      continue;
    }
    seats_[i] = Seat{.noted = seats_[i].noted};
    world_->wake(static_cast<Rank>(i));
  }
}

void Outside::note_asleep(std::size_t index) {
  if (seats_[index].noted) return;
  seats_[index].noted = true;
  notes_.push_back(
      fmt::format("rank {} slept outside Lockstep's calls for {} ms while others waited: they "
                  "continued without it, so what follows depends on the machine's timing",
                  index,
                  limits_.asleep_ms));
}

bool Outside::all_certain() const {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!is_waiting(i)) continue;
    const Seat& seat = seats_[i];
    const bool late = limits_.verdict_ms > 0 && seat.quiet_ms >= limits_.verdict_ms;
    if (!seat.before.needs_a_thread && !late) return false;
  }
  return true;
}

// Lets a slice of time pass, or less if something comes.
void Outside::pass(std::span<const std::size_t> waited) {
  std::vector<pollfd> descriptors;
  descriptors.push_back({.fd = interrupts_->descriptor(), .events = POLLIN, .revents = 0});
  for (const std::size_t i : waited) {
    descriptors.push_back({.fd = process(i).socket(), .events = POLLIN, .revents = 0});
    descriptors.push_back({.fd = process(i).end_descriptor(), .events = POLLIN, .revents = 0});
  }
  if (::poll(descriptors.data(), descriptors.size(), kSliceMs) != 0) {
    for (std::size_t at = 0; at < waited.size(); ++at) {
      if (descriptors[1 + 2 * at].revents != 0) process(waited[at]).read();
    }
    return;
  }
  for (const std::size_t i : waited) {
    seats_[i].quiet_ms += kSliceMs;
    if (seats_[i].quiet_ms % kLookMs == 0) look(i);
  }
}

void Outside::look(std::size_t index) {
  if (process(index).pid() <= 0) return;
  Seat& seat = seats_[index];
  const Activity now = look_at(process(index).pid());
  const bool slept = seat.n_looks++ > 0 && slept_through(seat.before, now);
  seat.before = now;
  if (!slept) {
    seat.quiet_ms = 0;
    seat.asleep = false;
  } else if (seat.quiet_ms >= limits_.asleep_ms) {
    seat.asleep = true;
  }
}

bool Outside::wait_for(Rank rank) {
  const std::size_t index = to_index(rank);
  const std::size_t waited[] = {index};
  expect(rank);
  for (;;) {
    process(index).read();
    if (process(index).is_due()) {
      seats_[index] = Seat{.noted = seats_[index].noted};
      return true;
    }
    if (check_interrupt()) return false;
    if (seats_[index].asleep) {
      note_asleep(index);
      return false;
    }
    pass(waited);
  }
}

// The ranks end at their next point, and their processes with them.
bool Outside::check_interrupt() {
  if (interrupted_ != 0) return true;
  interrupted_ = interrupts_->signal();
  if (interrupted_ == 0) return false;
  for (std::int32_t r = 0; r < world_->n_ranks(); ++r) {
    if (!world_->has_ended(Rank{r}))
      world_->kill(Rank{r}, fmt::format("interrupted by signal {}", interrupted_));
  }
  return true;
}

void Outside::collect_stacks(std::span<const Rank> ranks) {
  std::vector<std::size_t> asked;
  for (const Rank rank : ranks) {
    RankProcess& one = process(to_index(rank));
    one.forget_stack();
    const bool waits = !is_outside(rank) && !one.gone();
    if (waits && one.send({.kind = ReplyKind::kAskStack, .now = world_->now()}))
      asked.push_back(to_index(rank));
  }
  for (int waited_ms = 0; waited_ms < kStackMs && !asked.empty();) {
    std::erase_if(asked, [this](std::size_t i) {
      process(i).read();
      return process(i).stack() || process(i).gone();
    });
    std::vector<pollfd> open;
    open.reserve(asked.size());
    for (const std::size_t i : asked)
      open.push_back({.fd = process(i).socket(), .events = POLLIN, .revents = 0});
    if (!open.empty()) waited_ms += wait_a_slice(open);
  }
  for (const std::size_t i : asked)
    notes_.push_back(fmt::format("rank {} did not show its stack", i));
}

// Lets a process end, and ends it where that takes longer than `limit_ms`. True: it has ended.
bool Outside::let_end(std::size_t index, std::int32_t waited_ms, std::int32_t limit_ms) {
  RankProcess& one = process(index);
  if (one.poll_exit()) return true;
  one.read();
  if (waited_ms >= limit_ms) one.kill();
  return false;
}

pollfd Outside::end_of(std::size_t index) const {
  const RankProcess& one = process(index);
  return {
      .fd = one.pid() > 0 ? one.end_descriptor() : one.socket(), .events = POLLIN, .revents = 0};
}

void Outside::see_off(Rank rank) {
  const std::size_t index = to_index(rank);
  for (std::int32_t waited_ms = 0; !let_end(index, waited_ms, limits_.grace_ms);) {
    std::vector<pollfd> left{end_of(index)};
    waited_ms += wait_a_slice(left);
  }
}

void Outside::see_off(std::span<const std::uint8_t> stopped) {
  for (std::int32_t waited_ms = 0;;) {
    std::vector<pollfd> left;
    const bool hurried = interrupts_->signal() != 0;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const bool thread = process(i).pid() <= 0 && stopped[i] == 0;
      const std::int32_t limit = stopped[i] != 0 || hurried ? limits_.grace_ms : kLongestExitMs;
      if (!thread && !let_end(i, waited_ms, limit)) left.push_back(end_of(i));
    }
    if (left.empty()) return;
    waited_ms += wait_a_slice(left);
  }
}

}  // namespace lockstep::sim
