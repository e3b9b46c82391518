// The checkers, one per law and file. make_law (law_set.cc) chooses among them by id.
#pragma once

#include <memory>

#include "lockstep/laws/law.h"

namespace lockstep::laws {

std::unique_ptr<Law> make_init_equal(const LawPolicy& policy);
std::unique_ptr<Law> make_replicas_equal(const LawPolicy& policy);
std::unique_ptr<Law> make_optimizer_equal(const LawPolicy& policy);
std::unique_ptr<Law> make_gradient_mean(const LawPolicy& policy);
std::unique_ptr<Law> make_reduced_once(const LawPolicy& policy);
std::unique_ptr<Law> make_collectives_match(const LawPolicy& policy);
std::unique_ptr<Law> make_progress(const LawPolicy& policy);
std::unique_ptr<Law> make_buffers_policy(const LawPolicy& policy);
std::unique_ptr<Law> make_samples_covered(const LawPolicy& policy);
std::unique_ptr<Law> make_epoch_reshuffled(const LawPolicy& policy);
std::unique_ptr<Law> make_rng_scopes(const LawPolicy& policy);
std::unique_ptr<Law> make_single_process_equal(const LawPolicy& policy);
std::unique_ptr<Law> make_metric_true(const LawPolicy& policy);
std::unique_ptr<Law> make_in_flight_untouched(const LawPolicy& policy);
std::unique_ptr<Law> make_environment_bijective(const LawPolicy& policy);
std::unique_ptr<Law> make_checkpoint_whole(const LawPolicy& policy);
std::unique_ptr<Law> make_redo_equal(const LawPolicy& policy);
std::unique_ptr<Law> make_decisions_uniform(const LawPolicy& policy);
std::unique_ptr<Law> make_accumulated_once(const LawPolicy& policy);
std::unique_ptr<Law> make_norm_true(const LawPolicy& policy);
std::unique_ptr<Law> make_outer_step(const LawPolicy& policy);
std::unique_ptr<Law> make_trained_set(const LawPolicy& policy);

}  // namespace lockstep::laws
