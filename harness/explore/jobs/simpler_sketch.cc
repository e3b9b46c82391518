// One thing less.
#include <array>
#include <bit>

#include "lockstep/harness/explore/jobs/detail/repair.h"

namespace lockstep {

namespace {

/// Something to take away, and how much it weighs while it is there.
struct Part {
  void (*take)(JobSketch&);
  std::int64_t (*weight)(const JobSketch&);
};

constexpr std::int64_t kFeature = 100;  // Besides sizes, which count by themselves.

template <auto kMember>
void reset(JobSketch& s) {
  s.*kMember = JobSketch{}.*kMember;
}

template <auto kMember>
std::int64_t differs(const JobSketch& s) {
  return s.*kMember == JobSketch{}.*kMember ? 0 : kFeature;
}

template <auto kMember>
void one_less(JobSketch& s) {
  s.*kMember -= s.*kMember > 1 ? 1 : 0;
}

template <auto kMember>
std::int64_t size(const JobSketch& s) {
  return static_cast<std::int64_t>(s.*kMember);
}

std::int64_t nothing(const JobSketch& /*s*/) { return 0; }

template <auto kMember>
constexpr Part feature() {
  return {&reset<kMember>, &differs<kMember>};
}

/// Down to its default, where that is less; then one by one.
template <auto kMember>
constexpr Part amount() {
  return {&reset<kMember>, &size<kMember>};
}

template <auto kMember>
constexpr Part one_of() {
  return {&one_less<kMember>, &nothing};
}

/// Plain models are one matrix after the other.
std::int64_t kind_of_model(const JobSketch& s) {
  const bool plain =
      s.model == ModelKind::kMlp || s.model == ModelKind::kLinear || s.model == ModelKind::kScalar;
  return plain ? 0 : 2 * kFeature;
}

void fewer_layers(JobSketch& s) {
  if (!s.hidden.empty()) s.hidden.pop_back();
}

void narrower_layers(JobSketch& s) {
  for (std::int64_t& width : s.hidden) width = (width + 1) / 2;
}

std::int64_t widths(const JobSketch& s) {
  std::int64_t sum = 0;
  for (const std::int64_t width : s.hidden) sum += width + 1;
  return sum;
}

void halve_seed(JobSketch& s) { s.seed /= 2; }

void halve_schedule_seed(JobSketch& s) { s.schedule_seed /= 2; }

template <auto kMember>
std::int64_t bits(const JobSketch& s) {
  return static_cast<std::int64_t>(std::bit_width(s.*kMember));
}

// From what takes most away to what takes least away.
constexpr std::array kParts = {
    feature<&JobSketch::fault>(),
    Part{&reset<&JobSketch::model>, &kind_of_model},
    amount<&JobSketch::ranks>(),
    one_of<&JobSketch::ranks>(),
    amount<&JobSketch::epochs>(),
    one_of<&JobSketch::epochs>(),
    amount<&JobSketch::batches>(),
    one_of<&JobSketch::batches>(),
    feature<&JobSketch::hook>(),
    feature<&JobSketch::join>(),
    amount<&JobSketch::snapshot_every>(),
    feature<&JobSketch::sampler>(),
    amount<&JobSketch::accumulate>(),
    feature<&JobSketch::no_sync>(),
    feature<&JobSketch::redo>(),
    feature<&JobSketch::scheduler>(),
    feature<&JobSketch::per_step>(),
    feature<&JobSketch::optimizer>(),
    feature<&JobSketch::zero>(),
    feature<&JobSketch::averager>(),
    feature<&JobSketch::autocast>(),
    feature<&JobSketch::scaler>(),
    feature<&JobSketch::clip>(),
    feature<&JobSketch::eval>(),
    feature<&JobSketch::wrap>(),
    feature<&JobSketch::static_graph>(),
    feature<&JobSketch::find_unused>(),
    feature<&JobSketch::view>(),
    amount<&JobSketch::bucket_bytes>(),
    feature<&JobSketch::broadcast_buffers>(),
    feature<&JobSketch::checkpoint>(),
    feature<&JobSketch::freeze>(),
    feature<&JobSketch::classes>(),
    feature<&JobSketch::loss>(),
    feature<&JobSketch::head>(),
    feature<&JobSketch::activation>(),
    feature<&JobSketch::dtype>(),
    feature<&JobSketch::bias>(),
    feature<&JobSketch::seed_by_rank>(),
    Part{&fewer_layers, &widths},
    Part{&narrower_layers, &nothing},
    amount<&JobSketch::features>(),
    one_of<&JobSketch::features>(),
    amount<&JobSketch::outputs>(),
    one_of<&JobSketch::outputs>(),
    amount<&JobSketch::batch>(),
    one_of<&JobSketch::batch>(),
    amount<&JobSketch::extra>(),
    one_of<&JobSketch::extra>(),
    feature<&JobSketch::shuffle>(),
    feature<&JobSketch::drop_last>(),
    amount<&JobSketch::workers>(),
    feature<&JobSketch::persistent>(),
    feature<&JobSketch::augment>(),
    feature<&JobSketch::momentum>(),
    feature<&JobSketch::weight_decay>(),
    feature<&JobSketch::variant>(),
    feature<&JobSketch::zero_grad>(),
    feature<&JobSketch::divide_by_initial>(),
    feature<&JobSketch::strategy>(),
    feature<&JobSketch::order>(),
    feature<&JobSketch::pairing>(),
    feature<&JobSketch::fidelity>(),
    feature<&JobSketch::timed>(),
    amount<&JobSketch::nodes>(),
    amount<&JobSketch::fault_rank>(),
    amount<&JobSketch::fault_step>(),
    Part{&halve_seed, &bits<&JobSketch::seed>},
    Part{&halve_schedule_seed, &bits<&JobSketch::schedule_seed>},
};

std::int64_t weight_of(const JobSketch& sketch) {
  std::int64_t sum = 0;
  for (const Part& part : kParts) sum += part.weight(sketch);
  return sum;
}

}  // namespace

std::vector<JobSketch> simpler(const JobSketch& sketch) {
  const std::int64_t weight = weight_of(sketch);
  std::vector<JobSketch> simpler;
  simpler.reserve(kParts.size());
  for (const Part& part : kParts) {
    JobSketch candidate = sketch;
    part.take(candidate);
    detail::repair(candidate);
    // Mending may bring back more than was taken away.
    if (weight_of(candidate) < weight) simpler.push_back(candidate);
  }
  return simpler;
}

}  // namespace lockstep
