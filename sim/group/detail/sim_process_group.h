// One virtual rank's side of a group.
#pragma once

#include <memory>

#include "lockstep/sim/group/detail/group_registry.h"

namespace lockstep::sim {

class SimProcessGroup final : public ProcessGroup {
 public:
  SimProcessGroup(GroupRegistry& registry,
                  GroupState& state,
                  RankHandle& handle,
                  Runtime& runtime,
                  std::int32_t member);
  ~SimProcessGroup() override;
  SimProcessGroup(const SimProcessGroup&) = delete;
  SimProcessGroup& operator=(const SimProcessGroup&) = delete;
  SimProcessGroup(SimProcessGroup&&) = delete;
  SimProcessGroup& operator=(SimProcessGroup&&) = delete;

  std::int32_t rank() const override { return member_; }

  std::int32_t size() const override { return state_->size(); }

  std::int32_t id() const override { return state_->id; }

  Rank world_rank(std::int32_t group_rank) const override;

  std::string_view backend() const override { return "sim"; }

  std::string_view reduction_order() const override { return name_of(registry_->options().order); }

  Runtime& runtime() override { return *runtime_; }

  bool names_results() const override { return true; }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> group_ranks,
                                      CallSite site) override;
  void abandon(std::int32_t wrapper) override;

  GroupRegistry& registry() const { return *registry_; }

  GroupState& state() const { return *state_; }

  RankHandle& handle() const { return *handle_; }

  void record(const SimWork& work);
  void record_sender(const SimWork& work);  ///< The posting of a recv from any rank.

  // -- works that have not completed, in the order of posting
  void add_pending(SimWork& work);
  void remove_pending(SimWork& work);

  SimWork* first_pending() const { return first_pending_; }

 protected:
  Work post(const CollectiveCall& call) override;

 private:
  void check_owner(const CollectiveCall& call) const;

  GroupRegistry* registry_;
  GroupState* state_;
  RankHandle* handle_;
  Runtime* runtime_;
  std::int32_t member_;
  std::int64_t next_seq_ = 0;
  std::int64_t n_splits_ = 0;
  SimWork* first_pending_ = nullptr;
  SimWork* last_pending_ = nullptr;
};

}  // namespace lockstep::sim
