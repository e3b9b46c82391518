#include "lockstep/train/snapshot.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/comm/comm_status.h"
#include "lockstep/hooks/generator_state.h"
#include "lockstep/models/gpt.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

constexpr std::string_view kHook = "hook/";
constexpr std::string_view kDropout = "rng/dropout";
constexpr std::string_view kOwnStream = "rng/augment.own";
constexpr std::string_view kLibraryStream = "rng/augment.library";
constexpr std::int64_t kUnreadable = -2;  ///< Rank 0 cannot look into the folder, or use it.
constexpr std::size_t kNumbersPerRank =
    6;  ///< What gather() says of a rank: two files, three each.

void wait_for(const Work& work) {
  const CommStatus status = work.wait();
  if (status != CommStatus::kOk) throw CommError(status, work.signature(), work.detail());
}

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
    throw std::runtime_error("the snapshot has another shape or dtype of '" + std::string(name) +
                             "'");
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

Snapshots::Snapshots(const Job& job,
                     RankContext& context,
                     const SnapshotSubjects& subjects,
                     std::int32_t wrapper)
    : job_(job),
      context_(context),
      model_(*subjects.model),
      stepper_(*subjects.stepper),
      hook_(subjects.hook),
      augmentation_(subjects.augmentation),
      wrapper_(wrapper),
      files_(context.host().files(), job.loop.snapshot.path, job.loop.snapshot.publish) {
  for (const Variable& parameter : std::as_const(stepper_.optimizer()).parameters()) {
    for (const NamedVariable& named : model_.named_parameters()) {
      if (&named.variable.state() == &parameter.state()) names_.push_back(named.name);
    }
  }
}

bool Snapshots::includes(SnapshotPart part) const {
  const std::vector<SnapshotPart>& include = job_.loop.snapshot.include;
  return std::find(include.begin(), include.end(), part) != include.end();
}

bool Snapshots::takes(SnapshotPart part) const {
  const std::vector<SnapshotPart>& load = job_.loop.snapshot.load;
  return std::find(load.begin(), load.end(), part) != load.end();
}

bool Snapshots::writes_common() const {
  if (job_.loop.snapshot.writer == SnapshotWriter::kRank0) return context_.rank() == 0;
  return parse_int(context_.host().environment("LOCAL_RANK").value_or("0")) == 0;
}

bool Snapshots::trains_alone() const {
  const HookKind hook = job_.ddp.hook.kind;
  return job_.optimizer.averager || hook == HookKind::kPostLocalSgd || hook == HookKind::kNoop;
}

bool Snapshots::is_local(const std::string& parameter) const {
  if (!job_.ddp.wrap) return job_.ddp.average == AverageBy::kNone;
  if (trains_alone()) return true;
  const std::vector<std::string>& ignored = job_.ddp.options.ignored;
  return std::find(ignored.begin(), ignored.end(), parameter) != ignored.end();
}

void Snapshots::add_parameters(SafeTensors& part, bool local) const {
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

SafeTensors Snapshots::common_part() const {
  SafeTensors part;
  add_parameters(part, false);
  return part;
}

void Snapshots::add_numbers(SafeTensors& part) const {
  for (const Stepper::Numbers& numbers : stepper_.numbers()) {
    if (!includes(owner_of(numbers.part))) continue;
    part.metadata[std::string(name_of(numbers.part))] = render_numbers(numbers.numbers);
  }
}

// Those that the next step would still see.
void Snapshots::add_gradients(SafeTensors& part) const {
  if (job_.loop.zero_grad == ZeroGrad::kNone) return;
  for (const NamedVariable& named : model_.named_parameters()) {
    if (!named.variable.grad().defined()) continue;
    part.tensors.emplace_back("grad/" + named.name, named.variable.grad());
  }
}

void Snapshots::add_hook(SafeTensors& part) const {
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

void Snapshots::add_generators(SafeTensors& part) const {
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

SafeTensors Snapshots::own_part(const LoopPlace& place) const {
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

void Snapshots::load_parameters(const SafeTensors& part) {
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

void Snapshots::load_own(const SafeTensors& part) {
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
}

void Snapshots::load_hook(const SafeTensors& part) {
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

void Snapshots::load_generators(const SafeTensors& part, bool of_this_rank) {
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

SafeTensors Snapshots::read_part(const SnapshotManifest& manifest, const std::string& part) {
  const std::string name = SnapshotFiles::name_of(manifest.step, part);
  const Result<std::string> bytes = files_.read(manifest, name);
  if (!bytes.ok()) throw std::runtime_error(bytes.error().text());
  record(SnapshotAction::kRead,
         manifest.step,
         files_.path_of(name),
         describe_file(name, bytes.value()).digest);
  Result<SafeTensors> contents = parse_safetensors(context_.runtime(), bytes.value());
  if (!contents.ok()) throw std::runtime_error(name + ": " + contents.error().text());
  return std::move(contents).value();
}

LoopPlace Snapshots::load(std::int64_t step) {
  const Result<SnapshotManifest> manifest = files_.manifest(step);
  if (!manifest.ok()) throw std::runtime_error(manifest.error().text());
  const std::int32_t n_ranks = manifest.value().n_ranks;
  load_parameters(read_part(manifest.value(), "model"));
  const bool had_own = context_.rank() < n_ranks;
  const std::int32_t owner = had_own ? context_.rank() : 0;
  const SafeTensors own = read_part(manifest.value(), SnapshotFiles::rank_part(owner));
  load_parameters(own);
  load_own(own);
  load_hook(own);
  if (takes(SnapshotPart::kRng)) {
    const bool shares = job_.loop.snapshot.rng == SnapshotRng::kRank0;
    load_generators(shares ? read_part(manifest.value(), SnapshotFiles::rank_part(0)) : own,
                    shares || had_own);
  }
  const auto text = own.metadata.find("place");
  LoopPlace place = parse_place(text == own.metadata.end() ? std::string_view() : text->second);
  if (job_.loop.snapshot.epoch == SnapshotEpoch::kFirst) place.epoch = place.batch = 0;
  const bool keeps_count = job_.loop.snapshot.resize == SnapshotResize::kKeepBatches;
  const bool same_share = (n_ranks == context_.world_size() || keeps_count) &&
                          includes(SnapshotPart::kSampler) && takes(SnapshotPart::kSampler);
  if (!same_share && place.batch != LoopPlace::kEndOfEpoch) place.batch = 0;
  return place;
}

Result<std::int64_t> Snapshots::find_newest() {
  if (Outcome outcome = files_.make_folder(); !outcome.ok()) return outcome.error();
  std::int64_t step = -1;
  if (job_.loop.snapshot.resume) {
    std::vector<SnapshotFiles::Damage> skipped;
    const Result<std::optional<SnapshotManifest>> newest = files_.newest_whole(&skipped);
    if (!newest.ok()) return newest.error();
    for (const SnapshotFiles::Damage& damage : skipped) {
      record(SnapshotAction::kFail, damage.step, damage.reason.text());
    }
    if (newest.value()) step = newest.value()->step;
  } else if (parse_int(context_.host().environment("TORCHELASTIC_RESTART_COUNT").value_or("0")) ==
             0) {
    if (Outcome outcome = files_.check_unused(); !outcome.ok()) return outcome.error();
  }
  if (Outcome outcome = files_.drop_after(step); !outcome.ok()) return outcome.error();
  return step;
}

std::int64_t Snapshots::agree_on_newest() {
  std::int64_t step = -1;
  std::string trouble = "rank 0 cannot begin with the folder of snapshots";
  if (context_.rank() == 0) {
    const Result<std::int64_t> found = find_newest();
    step = found.ok() ? found.value() : kUnreadable;
    if (!found.ok()) trouble = found.error().text();
  }
  wait_for(context_.world().broadcast({&step, 1, DType::kI64}, 0));
  if (step == kUnreadable) throw std::runtime_error(trouble);
  return step;
}

std::optional<LoopPlace> Snapshots::resume() {
  // Each rank may have a folder of its own, or one on another disk. Without it its part cannot be
  // written, and that is recorded.
  if (context_.rank() != 0) (void)files_.make_folder();
  const std::int64_t step = agree_on_newest();
  std::optional<LoopPlace> place;
  if (step >= 0) resumed_ = place.emplace(load(step));
  Recorder* recorder = context_.runtime().recorder();
  if (recorder != nullptr && place) {
    recorder->position(wrapper_).opt = static_cast<std::int32_t>(place->step);
    record_states(StatePoint::kLoad);
  }
  const bool resumes = job_.loop.snapshot.resume;
  record(resumes ? SnapshotAction::kLoad : SnapshotAction::kFresh, step, job_.loop.snapshot.path);
  return place;
}

LoopPlace Snapshots::as_saved(LoopPlace place) const {
  const bool ended = place.batch == LoopPlace::kEndOfEpoch;
  const bool since_resume = job_.loop.snapshot.batches == BatchCount::kSinceResume;
  if (since_resume && !ended && place.epoch == resumed_.epoch && resumed_.batch > 0) {
    place.batch -= resumed_.batch;
  }
  return place;
}

Outcome Snapshots::publish(std::int64_t step,
                           const std::string& part,
                           const SafeTensors& contents,
                           std::vector<SnapshotManifest::File>& published) {
  const std::string name = SnapshotFiles::name_of(step, part);
  const std::string bytes = render_safetensors(contents);
  Outcome outcome = files_.publish(name, bytes);
  if (!outcome.ok()) return outcome;
  published.push_back(describe_file(name, bytes));
  record(SnapshotAction::kPart, step, files_.path_of(name), published.back().digest);
  return outcome;
}

std::optional<std::vector<SnapshotManifest::File>> Snapshots::gather(
    std::int64_t step, std::span<const SnapshotManifest::File> published) {
  const auto n_ranks = static_cast<std::size_t>(context_.world_size());
  std::array<std::int64_t, kNumbersPerRank> own{};
  for (std::size_t i = 0; i < published.size(); ++i) {
    own[3 * i] = 1;
    own[3 * i + 1] = published[i].n_bytes;
    own[3 * i + 2] = static_cast<std::int64_t>(published[i].digest);
  }
  std::vector<std::int64_t> words(n_ranks * kNumbersPerRank);
  std::vector<Memory> outputs;
  for (std::size_t r = 0; r < n_ranks; ++r) {
    outputs.push_back({&words[r * kNumbersPerRank], kNumbersPerRank, DType::kI64});
  }
  wait_for(context_.world().all_gather(outputs, {own.data(), kNumbersPerRank, DType::kI64}));
  std::vector<SnapshotManifest::File> files;
  for (std::size_t r = 0; r < n_ranks; ++r) {
    const std::size_t n_files = r == 0 ? 2 : 1;
    for (std::size_t i = 0; i < n_files; ++i) {
      const std::int64_t* at = &words[r * kNumbersPerRank + 3 * i];
      if (at[0] == 0) return std::nullopt;
      const std::string part =
          i == 0 ? SnapshotFiles::rank_part(static_cast<std::int32_t>(r)) : "model";
      files.push_back(
          {SnapshotFiles::name_of(step, part), at[1], static_cast<std::uint64_t>(at[2])});
    }
  }
  return files;
}

void Snapshots::save(const LoopPlace& place) {
  context_.record().phase(PhaseKind::kSave);
  record_states(StatePoint::kSave);
  std::vector<SnapshotManifest::File> published;
  Outcome outcome = publish(
      place.step, SnapshotFiles::rank_part(context_.rank()), own_part(as_saved(place)), published);
  if (outcome.ok() && writes_common()) {
    outcome = publish(place.step, "model", common_part(), published);
  }
  std::string trouble = outcome.ok() ? "another rank could not write" : outcome.error().text();
  auto files = gather(place.step, published);
  if (files && context_.rank() == 0) {
    outcome = files_.publish(
        {.step = place.step, .n_ranks = context_.world_size(), .files = std::move(*files)});
    if (outcome.ok()) {
      record(SnapshotAction::kSave, place.step, job_.loop.snapshot.path);
      outcome = files_.prune(place.step, job_.loop.snapshot.keep);
    }
    if (!outcome.ok()) record(SnapshotAction::kFail, place.step, outcome.error().text());
  } else if (!files) {
    record(SnapshotAction::kFail, place.step, trouble);
  }
  context_.record().phase(PhaseKind::kTrain);
}

void Snapshots::record_states(StatePoint point) const {
  Recorder* const recorder = context_.runtime().recorder();
  StateSource* const source = recorder == nullptr ? nullptr : recorder->source(wrapper_);
  // Each rank's own parameters are meant to differ.
  const bool differs = job_.ddp.wrap && trains_alone();
  if (source != nullptr && !differs) source->record_state(point);
}

void Snapshots::record(SnapshotAction action,
                       std::int64_t step,
                       const std::string& detail,
                       std::uint64_t digest) const {
  context_.record().snapshot(action, step, detail, digest);
}

}  // namespace lockstep
