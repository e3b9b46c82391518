#include "lockstep/train/snapshots/snapshot_contents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/hooks/generator_state.h"
#include "lockstep/models/gpt.h"

namespace lockstep {

namespace {

constexpr std::string_view kHook = "hook/";
constexpr std::string_view kDropout = "rng/dropout";
constexpr std::string_view kOwnStream = "rng/augment.own";
constexpr std::string_view kLibraryStream = "rng/augment.library";

/// "lr=0.1 momentum=0.9".
std::string render_numbers(std::span<const optim::StateNumber> numbers) {
  std::string text;
  for (const optim::StateNumber& number : numbers) {
    text += (text.empty() ? "" : " ") + number.name + "=" + exact(number.value);
  }
  return text;
}

std::vector<optim::StateNumber> parse_numbers(std::string_view text) {
  std::vector<optim::StateNumber> numbers;
  for (const std::string_view word : split(text, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::optional<double> value = parse_double(word.substr(equals + 1));
    if (!value) throw std::runtime_error("a snapshot says '" + std::string(word) + "'");
    numbers.push_back({std::string(word.substr(0, equals)), *value});
  }
  return numbers;
}

std::string render_place(const LoopPlace& place) {
  const std::array<optim::StateNumber, 4> numbers = {{{"step", static_cast<double>(place.step)},
                                                      {"epoch", static_cast<double>(place.epoch)},
                                                      {"batch", static_cast<double>(place.batch)},
                                                      {"last_loss", place.last_loss}}};
  return render_numbers(numbers);
}

LoopPlace parse_place(std::string_view text) {
  const std::vector<optim::StateNumber> numbers = parse_numbers(text);
  if (numbers.size() != 4) throw std::runtime_error("a snapshot without a place in the data");
  return {.step = static_cast<std::int64_t>(numbers[0].value),
          .epoch = static_cast<std::int64_t>(numbers[1].value),
          .batch = static_cast<std::int64_t>(numbers[2].value),
          .last_loss = numbers[3].value};
}

void copy_into(const Tensor& to, const Tensor& from, std::string_view name) {
  if (to.dtype() != from.dtype() || to.shape() != from.shape()) {
    throw std::runtime_error("the snapshot has a different shape or dtype for '" +
                             std::string(name) + "'");
  }
  if (to.n_bytes() > 0) {
    std::memcpy(to.write_raw(), from.read_raw(), static_cast<std::size_t>(to.n_bytes()));
  }
  to.storage()->bump_version();
}

/// The part of a snapshot that these numbers belong to.
SnapshotPart owner_of(StepperPart numbers) {
  switch (numbers) {
    case StepperPart::kGroups:
    case StepperPart::kAverager:
      return SnapshotPart::kOptimizer;
    case StepperPart::kScheduler:
    case StepperPart::kPlateau:
      return SnapshotPart::kScheduler;
    case StepperPart::kScaler:
      break;
  }
  return SnapshotPart::kScaler;
}

}  // namespace

SnapshotContents::SnapshotContents(const Job& job,
                                   RankContext& context,
                                   const SnapshotSubjects& subjects)
    : job_(job),
      context_(context),
      model_(*subjects.model),
      stepper_(*subjects.stepper),
      hook_(subjects.hook),
      augmentation_(subjects.augmentation) {
  for (const Variable& parameter : std::as_const(stepper_.optimizer()).parameters()) {
    for (const NamedVariable& named : model_.named_parameters()) {
      if (&named.variable.state() == &parameter.state()) names_.push_back(named.name);
    }
  }
}

bool SnapshotContents::includes(SnapshotPart part) const {
  const std::vector<SnapshotPart>& include = job_.loop.snapshot.include;
  return std::find(include.begin(), include.end(), part) != include.end();
}

bool SnapshotContents::takes(SnapshotPart part) const {
  const std::vector<SnapshotPart>& load = job_.loop.snapshot.load;
  return std::find(load.begin(), load.end(), part) != load.end();
}

bool SnapshotContents::trains_alone() const {
  const HookKind hook = job_.ddp.hook.kind;
  return job_.optimizer.averager || hook == HookKind::kPostLocalSgd || hook == HookKind::kNoop;
}

bool SnapshotContents::is_local(const std::string& parameter) const {
  if (!job_.ddp.wrap) return job_.ddp.average == AverageBy::kNone;
  if (trains_alone()) return true;
  const std::vector<std::string>& ignored = job_.ddp.options.ignored;
  return std::find(ignored.begin(), ignored.end(), parameter) != ignored.end();
}

void SnapshotContents::add_parameters(SafeTensors& part, bool local) const {
  if (includes(SnapshotPart::kModel)) {
    for (const NamedVariable& named : model_.named_parameters()) {
      if (is_local(named.name) != local) continue;
      part.tensors.emplace_back("model/" + named.name, named.variable.data());
    }
  }
  if (!includes(SnapshotPart::kOptimizer)) return;
  for (const optim::StateList& list : stepper_.optimizer().state()) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (is_local(names_[i]) != local || !list.tensors[i].defined()) continue;
      part.tensors.emplace_back("optimizer/" + list.name + "/" + names_[i], list.tensors[i]);
    }
  }
}

SafeTensors SnapshotContents::common_part() const {
  SafeTensors part;
  add_parameters(part, false);
  return part;
}

void SnapshotContents::add_numbers(SafeTensors& part) const {
  for (const Stepper::Numbers& numbers : stepper_.numbers()) {
    if (!includes(owner_of(numbers.part))) continue;
    part.metadata[std::string(name_of(numbers.part))] = render_numbers(numbers.numbers);
  }
}

// Those that the next step would still see.
void SnapshotContents::add_gradients(SafeTensors& part) const {
  if (job_.loop.zero_grad == ZeroGrad::kNone) return;
  for (const NamedVariable& named : model_.named_parameters()) {
    if (!named.variable.grad().defined()) continue;
    part.tensors.emplace_back("grad/" + named.name, named.variable.grad());
  }
}

void SnapshotContents::add_hook(SafeTensors& part) const {
  if (hook_ == nullptr || !includes(SnapshotPart::kHook)) return;
  const HookState state = hook_->save(context_.runtime());
  if (state.empty()) return;
  std::vector<optim::StateNumber> counts;
  counts.reserve(state.counts.size());
  for (const auto& [name, count] : state.counts) {
    counts.push_back({name, static_cast<double>(count)});
  }
  part.metadata["hook"] = render_numbers(counts);
  for (const auto& [name, tensor] : state.tensors) {
    part.tensors.emplace_back(std::string(kHook) + name, tensor);
  }
}

void SnapshotContents::add_generators(SafeTensors& part) const {
  if (!includes(SnapshotPart::kRng)) return;
  Runtime& runtime = context_.runtime();
  if (auto* gpt = dynamic_cast<nn::Gpt*>(&model_)) {
    part.tensors.emplace_back(kDropout, state_of(gpt->dropout_generator(), runtime));
  }
  if (augmentation_ == nullptr) return;
  // The epoch in progress is planned again, whole.
  const Augmentation::Streams& streams = augmentation_->at_pass();
  part.tensors.emplace_back(kOwnStream, state_of(streams.own, runtime));
  part.tensors.emplace_back(kLibraryStream, state_of(streams.library, runtime));
}

SafeTensors SnapshotContents::own_part(const LoopPlace& place) const {
  SafeTensors part;
  part.metadata["place"] = render_place(place);
  add_numbers(part);
  add_parameters(part, true);
  if (includes(SnapshotPart::kModel)) {
    for (const NamedVariable& named : model_.named_buffers()) {
      part.tensors.emplace_back("buffer/" + named.name, named.variable.data());
    }
  }
  add_gradients(part);
  add_hook(part);
  add_generators(part);
  return part;
}

void SnapshotContents::load_parameters(const SafeTensors& part) {
  for (const NamedVariable& named : model_.named_parameters()) {
    const Tensor* saved = takes(SnapshotPart::kModel) ? part.find("model/" + named.name) : nullptr;
    if (saved != nullptr) copy_into(named.variable.data(), *saved, named.name);
  }
  if (!takes(SnapshotPart::kOptimizer)) return;
  constexpr std::string_view kState = "optimizer/";
  for (const auto& [name, tensor] : part.tensors) {
    if (name.substr(0, kState.size()) != kState) continue;
    const std::size_t slash = name.find('/', kState.size());
    const auto parameter = std::find(names_.begin(), names_.end(), name.substr(slash + 1));
    if (slash == std::string::npos || parameter == names_.end()) continue;
    stepper_.optimizer().load_state(name.substr(kState.size(), slash - kState.size()),
                                    static_cast<std::size_t>(parameter - names_.begin()),
                                    tensor);
  }
}

void SnapshotContents::load_own(const SafeTensors& part) {
  for (const StepperPart numbers : every<StepperPart>()) {
    const auto found = part.metadata.find(std::string(name_of(numbers)));
    if (found == part.metadata.end() || !takes(owner_of(numbers))) continue;
    stepper_.load_numbers({numbers, parse_numbers(found->second)});
  }
  for (const NamedVariable& named : model_.named_buffers()) {
    const Tensor* saved = takes(SnapshotPart::kModel) ? part.find("buffer/" + named.name) : nullptr;
    if (saved != nullptr) copy_into(named.variable.data(), *saved, named.name);
  }
  for (const NamedVariable& named : model_.named_parameters()) {
    const Tensor* saved = part.find("grad/" + named.name);
    if (saved != nullptr) named.variable.set_grad(*saved);
  }
  load_hook(part);
}

void SnapshotContents::load_hook(const SafeTensors& part) {
  const auto counts = part.metadata.find("hook");
  if (hook_ == nullptr || counts == part.metadata.end() || !takes(SnapshotPart::kHook)) return;
  HookState state;
  for (const optim::StateNumber& number : parse_numbers(counts->second)) {
    state.counts.emplace_back(number.name, static_cast<std::int64_t>(number.value));
  }
  for (const auto& [name, tensor] : part.tensors) {
    if (name.substr(0, kHook.size()) != kHook) continue;
    state.tensors.emplace_back(name.substr(kHook.size()), tensor);
  }
  hook_->load(state);
}

void SnapshotContents::load_generators(const SafeTensors& part, bool of_this_rank) {
  const Tensor* dropout = part.find(kDropout);
  auto* gpt = dynamic_cast<nn::Gpt*>(&model_);
  if (dropout != nullptr && gpt != nullptr) load_state(gpt->dropout_generator(), *dropout);
  const Tensor* own = part.find(kOwnStream);
  const Tensor* library = part.find(kLibraryStream);
  if (augmentation_ == nullptr || own == nullptr || library == nullptr || !of_this_rank) return;
  Augmentation::Streams streams;
  load_state(streams.own, *own);
  load_state(streams.library, *library);
  augmentation_->resume(streams);
}

LoopPlace SnapshotContents::place_of(const SafeTensors& own) {
  const auto text = own.metadata.find("place");
  return parse_place(text == own.metadata.end() ? std::string_view() : text->second);
}

}  // namespace lockstep
