#include "lockstep/tensor/in_flight.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // Keeps a pair of digests from cancelling.

}  // namespace

void ExchangeWatch::begin(const Exchange& exchange, const Ends& ends) {
  if (next_ == Origin::kSlots) return;  // Too many at once: the others are watched.
  Slot& slot = slots_[next_];
  slot = Slot{.exchange = exchange, .place = ends.place, .sent = ends.sent, .open = true};
  if (!ends.results.empty()) slot.result = ends.results.front();
  if (ends.place != nullptr) slot.exchange.join = Join::kInPlace;
  if (listener_ != nullptr) listener_->on_call(slot.exchange);
  const std::uint32_t bit = 1U << (Origin::kFirstDirect + next_);
  for (Storage* const result : ends.results) {
    result->set_origin((written(result->origin(), 0, true) & ~Origin::kTaken) | bit);
  }
  ++next_;
  ++n_open_;
  if (runtime_ != nullptr) runtime_->add_watched(1);
}

void ExchangeWatch::answer(std::int32_t group) {
  if (!in_backward_) return;
  for (std::uint32_t i = 0; i < Origin::kSlots; ++i) {
    Slot& slot = slots_[Origin::kSlots - 1 - i];
    if (!slot.open || !slot.in_loss || slot.exchange.answered) continue;
    if (slot.exchange.group != group) continue;
    slot.exchange.answered = true;
    return;
  }
}

void ExchangeWatch::on_read(std::uint32_t origin) {
  const std::uint32_t slots = direct(origin);
  for (std::uint32_t i = 0; i < Origin::kSlots; ++i) {
    if ((slots >> i & 1U) != 0) slots_[i].read = true;
  }
}

void ExchangeWatch::on_gone(const Storage& storage) {
  const bool taken = (storage.origin() & Origin::kTaken) != 0;
  for (Slot& slot : slots_) {
    if (!slot.open || slot.result != &storage || slot.in_loss) continue;
    slot.result = nullptr;
    if (slot.exchange.join != Join::kFunction || slot.read || taken) continue;
    slot.exchange.dropped = true;
    report(slot);
  }
}

void ExchangeWatch::on_function(std::uint32_t origin, const Node& node) {
  const std::uint32_t slots = direct(origin);
  for (std::uint32_t i = 0; i < Origin::kSlots; ++i) {
    Slot& slot = slots_[i];
    if ((slots >> i & 1U) == 0 || slot.exchange.join != Join::kConstant) continue;
    slot.exchange.join = Join::kFunction;
    slot.producer = &node;
  }
}

void ExchangeWatch::on_edge(const Storage& storage, const Node& producer) {
  for (Slot& slot : slots_) {
    if (!slot.open) continue;
    if (slot.place == &storage) slot.producer = &producer;
    if (slot.sent == &storage && slot.sender == nullptr) slot.sender = &producer;
  }
}

bool ExchangeWatch::may_meet(std::uint32_t origin) const {
  for (std::uint32_t i = 0; i < Origin::kSlots; ++i) {
    if (sender(i, origin) != nullptr) return true;
  }
  return false;
}

const Node* ExchangeWatch::sender(std::uint32_t slot, std::uint32_t origin) const {
  const Slot& asked = slots_[slot];
  if ((carried(origin) >> slot & 1U) == 0 || !asked.open || asked.producer != nullptr)
    return nullptr;
  return asked.exchange.join == Join::kConstant ? asked.sender : nullptr;
}

void ExchangeWatch::on_meeting(std::uint32_t slot, const Node& node, std::uint64_t digest) {
  slots_[slot].producer = &node;
  slots_[slot].met = digest;
}

void ExchangeWatch::begin_backward(std::uint32_t origin) {
  in_backward_ = true;
  const std::uint32_t derived = is_current(origin) ? Origin::derived(origin) : 0U;
  const std::uint32_t returned = direct(origin);
  on_read(origin);
  for (std::uint32_t i = 0; i < Origin::kSlots; ++i) {
    Slot& slot = slots_[i];
    const bool is_root = (returned >> i & 1U) != 0 && slot.exchange.join == Join::kFunction;
    slot.in_loss = slot.open && (is_root || (derived >> i & 1U) != 0);
    if (slot.in_loss) ++n_in_loss_;
  }
}

// A graph may be differentiated twice, its loss in two parts; what no backward has asked for since
// was not part of a loss.
void ExchangeWatch::end_backward() {
  constexpr std::int32_t kForgotten = 2;
  constexpr std::int32_t kForgottenUnread = 8;
  in_backward_ = false;
  n_in_loss_ = 0;
  slopes_.clear();
  for (Slot& slot : slots_) {
    if (!slot.open) continue;
    if (slot.in_loss) {
      report(slot);
      continue;
    }
    const bool may_drop = slot.exchange.join == Join::kFunction && !slot.read;
    if (++slot.n_backwards >= (may_drop ? kForgottenUnread : kForgotten)) close(slot);
  }
}

std::uint32_t ExchangeWatch::written(std::uint32_t origin,
                                     std::uint32_t carried,
                                     bool whole) const {
  const std::uint32_t kept = whole || !is_current(origin) ? origin & Origin::kOwn : origin;
  return kept | window_ << Origin::kFirstWindow | carried << Origin::kFirstDerived;
}

bool ExchangeWatch::wants(const Node& node) const {
  for (const Slot& slot : slots_) {
    if (slot.open && slot.in_loss && slot.producer == &node) return true;
  }
  return false;
}

void ExchangeWatch::on_arrival(const Node& node, std::uint64_t digest) {
  for (Slot& slot : slots_) {
    if (!slot.open || !slot.in_loss || slot.producer != &node) continue;
    // Of a constant's meeting both must be equal on all ranks: what it computed and its gradient.
    slot.exchange.arrived = digest == 0 ? 0 : digest ^ slot.met * kOdd;
  }
}

void ExchangeWatch::report(Slot& slot) {
  const Exchange exchange = slot.exchange;
  close(slot);
  if (listener_ != nullptr) listener_->on_exchange(exchange);
}

void ExchangeWatch::close(Slot& slot) {
  slot = Slot{};
  if (runtime_ != nullptr) runtime_->add_watched(-1);
  if (--n_open_ > 0) return;
  next_ = 0;
  window_ = window_ % Origin::kWindowMask + 1;
}

}  // namespace lockstep
