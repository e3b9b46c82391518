#include "lockstep/train/snapshots/snapshot.h"

#include <gmock/gmock.h>

#include "lockstep/base/text.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/train/rank_program.h"

#include "tests/train/one_rank.h"

namespace lockstep {
namespace {

using testing::column_data;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OneRank;
using ::testing::SizeIs;

// What Python's safetensors writes for {"a": tensor([1., 2.]), "n": tensor(7)}: its header by hand.
const std::string kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("n":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xFFU);
  bytes[1] = static_cast<char>(header.size() >> 8U);
  return bytes + header + data;
}

const std::string kData("\x00\x00\x80\x3f\x00\x00\x00\x40\x07\x00\x00\x00\x00\x00\x00\x00", 16);

TEST(SafeTensors, ReadsWhatPythonWrites) {
  OneRank one;
  const auto read = parse_safetensors(one.runtime(), file_of(kHeader, kData));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_THAT(testing::values_of(*read.value().find("a")), ElementsAre(1.0, 2.0));
  EXPECT_EQ(read.value().find("n")->item(), 7.0);
  EXPECT_EQ(read.value().find("n")->dtype(), DType::kI64);
  EXPECT_EQ(read.value().metadata.at("format"), "pt");
}

TEST(SafeTensors, WritesAHeaderOfWholeWordsAndTheBytesAfterIt) {
  OneRank one;
  SafeTensors contents;
  contents.metadata["format"] = "pt";
  const double values[] = {1, 2};
  const double seven[] = {7};
  contents.tensors.emplace_back("a", Tensor::of(one.runtime(), {2}, DType::kF32, values));
  contents.tensors.emplace_back("n", Tensor::of(one.runtime(), {}, DType::kI64, seven));
  std::string padded = kHeader;
  padded.resize((padded.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(render_safetensors(contents), file_of(padded, kData));
}

TEST(SafeTensors, RefusesDamage) {
  OneRank one;
  const std::string whole = file_of(kHeader, kData);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(parse_safetensors(one.runtime(), whole.substr(0, n)).ok()) << n;
  }
  EXPECT_FALSE(parse_safetensors(one.runtime(), whole + "x").ok());
  for (const char* header :
       {R"([])",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})",
        R"({"a":{"dtype":"F31","shape":[4],"data_offsets":[0,16]}})",
        R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})",
        R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
        R"({"a":{"dtype":"F32","shape":[1,1,1,1,4],"data_offsets":[0,16]}})"}) {
    EXPECT_FALSE(parse_safetensors(one.runtime(), file_of(header, kData)).ok()) << header;
  }
}

TEST(SafeTensors, ARefusalThatQuotesANameIsOneLine) {
  OneRank one;
  for (const char* fields : {R"("dtype":"F31","shape":[4],"data_offsets":[0,16])",
                             R"("dtype":"F32","shape":[1,1,1,1,4],"data_offsets":[0,16])"}) {
    const std::string header = R"({"a\n\u001bb":{)" + std::string(fields) + "}}";
    const auto read = parse_safetensors(one.runtime(), file_of(header, kData));
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().text(), ::testing::StartsWith("tensor 'a\\n\\x1bb': "));
  }
}

TEST(SnapshotManifest, ATextWithAnotherTitleIsNotAManifest) {
  const std::string text = render_manifest({.step = 3, .n_ranks = 2, .files = {}});
  const std::string_view digest_line = "digest 0123456789abcdef\n";
  std::string above = text.substr(0, text.size() - digest_line.size());
  const auto sealed = [&] {
    return above + "digest " + hex64(describe_file("", above).digest) + "\n";
  };
  ASSERT_EQ(sealed(), text);

  above.insert(0, "not ");

  EXPECT_FALSE(parse_manifest(sealed()).ok());
}

TEST(SnapshotManifest, ReadsBackAndRefusesHalves) {
  const SnapshotManifest manifest{.step = 3, .n_ranks = 2, .files = {describe_file("x", "abc")}};
  const std::string text = render_manifest(manifest);
  const auto read = parse_manifest(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().step, 3);
  EXPECT_EQ(read.value().n_ranks, 2);
  ASSERT_THAT(read.value().files, SizeIs(1));
  EXPECT_EQ(read.value().files[0].n_bytes, 3);
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(parse_manifest(text.substr(0, n)).ok()) << n;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = other[i] == 'z' ? 'y' : 'z';
    EXPECT_FALSE(parse_manifest(other).ok()) << i;
  }
}

// -- a job that is stopped after each number of steps and resumed by a new process on the same
// files

std::vector<std::uint64_t> bits_of(nn::Module& model) {
  std::vector<std::uint64_t> bits;
  for (const NamedVariable& named : model.named_parameters()) {
    for (const double value : testing::values_of(named.variable.data())) {
      bits.push_back(std::bit_cast<std::uint64_t>(value));
    }
  }
  return bits;
}

class KeepBits final : public LoopHook {
 public:
  void before(LoopPoint point, LoopState& state) override {
    if (point == LoopPoint::kEnd) bits = bits_of(*state.model);
  }

  std::vector<std::uint64_t> bits;
};

Job job_with(OptimizerKind optimizer) {
  Job job;
  job.model.kind = ModelKind::kMlp;
  job.model.widths = {1, 3, 1};
  job.train = column_data({1, 2, 3, 4, 5, 6, 7}, {2, 1, 4, 3, 6, 5, 8});
  job.loader = {.batch = 2, .shuffle = true};
  job.optimizer.kind = optimizer;
  job.optimizer.lr = 0.01;
  const bool moves = optimizer == OptimizerKind::kSgd || optimizer == OptimizerKind::kRmsprop;
  job.optimizer.momentum = moves ? 0.9 : 0.0;
  job.loop.steps = 7;
  job.loop.snapshot = {.every_steps = 1, .path = "ckpt"};
  return job;
}

std::vector<std::uint64_t> run(OneRank& one, const Job& job) {
  KeepBits keep;
  LoopHook* hooks[] = {&keep};
  run_job(job, one.context(), hooks);
  return keep.bits;
}

/// Bits after 7 steps, stopped and resumed after `stop` of them.
std::vector<std::uint64_t> stopped_and_resumed(Job job, std::int64_t stop) {
  OneRank one;
  const std::optional<std::int64_t> steps = std::exchange(job.loop.steps, stop);
  run(one, job);
  job.loop.steps = steps;
  return run(one, job);
}

void expect_same_after_each_stop(const Job& job) {
  OneRank one;
  const auto whole = run(one, job);
  for (std::int64_t stop = 1; stop < 7; ++stop) {
    EXPECT_EQ(stopped_and_resumed(job, stop), whole) << "stopped after " << stop;
  }
}

TEST(Snapshot, AStartThatLooksInAnotherFolderChangesNothingThere) {
  OneRank one;
  Job job = job_with(OptimizerKind::kSgd);
  job.loop.steps = 4;
  run(one, job);
  FileSystem& files = one.host().files();
  ASSERT_TRUE(files.write("ckpt/step-00000004.manifest", "damaged").ok());
  const std::vector<std::string> before = files.list("ckpt").value();
  job.loop.steps = 6;
  job.loop.snapshot.path = "new";
  job.loop.snapshot.looks_in = "ckpt";
  EXPECT_EQ(run_job(job, one.context(), {}).first_step, 3);
  EXPECT_EQ(files.list("ckpt").value(), before);
  // What this run has saved lies in `path`, so the next start does not find it.
  EXPECT_EQ(run_job(job, one.context(), {}).first_step, 3);
  job.loop.snapshot.looks_in = "empty";
  EXPECT_EQ(run_job(job, one.context(), {}).first_step, 0);
  job.loop.snapshot.looks_in.clear();
  EXPECT_EQ(run_job(job, one.context(), {}).first_step, 6);
}

TEST(Snapshot, ResumesEveryOptimizerAfterEveryStep) {
  for (const OptimizerKind kind : every<OptimizerKind>()) {
    SCOPED_TRACE(name_of(kind));
    expect_same_after_each_stop(job_with(kind));
  }
}

TEST(Snapshot, ResumesAmsgradAndCenteredMeans) {
  Job adam = job_with(OptimizerKind::kAdam);
  adam.optimizer.amsgrad = true;
  expect_same_after_each_stop(adam);
  Job rmsprop = job_with(OptimizerKind::kRmsprop);
  rmsprop.optimizer.centered = true;
  expect_same_after_each_stop(rmsprop);
}

TEST(Snapshot, ResumesSchedules) {
  Job job = job_with(OptimizerKind::kSgd);
  for (const RatePace per : every<RatePace>()) {
    job.scheduler.per = per;
    job.scheduler.rules = {optim::StepLr{.step_size = 2}};
    expect_same_after_each_stop(job);
    job.scheduler.rules = {optim::LinearLr{.total_iters = 2}, optim::CosineAnnealingLr{.t_max = 5}};
    job.scheduler.milestones = {2};
    expect_same_after_each_stop(job);
    job.scheduler.rules.clear();
    job.scheduler.plateau = optim::PlateauOptions{.patience = 0};
    expect_same_after_each_stop(job);
    job.scheduler.plateau.reset();
  }
}

TEST(Snapshot, ResumesScalerGroupsAndLeftoverGradients) {
  Job job = job_with(OptimizerKind::kAdam);
  job.scaler = ScalerSpec{.options = {.init_scale = 1024.0, .growth_interval = 2}};
  job.optimizer.groups = {{.tensors = {"0.bias"}, .lr = 0.5}};
  job.loop.zero_grad = ZeroGrad::kNever;
  expect_same_after_each_stop(job);
}

TEST(Snapshot, ResumesBatchNormAndWorkersOfAStream) {
  Job job = job_with(OptimizerKind::kSgd);
  job.model.kind = ModelKind::kBn;
  job.loader.sampler = SamplerKind::kStream;
  job.loader.drop_last = true;
  job.loader.workers = 2;
  for (const bool persistent : {false, true}) {
    job.loader.persistent = persistent;
    expect_same_after_each_stop(job);
  }
}

TEST(Snapshot, ResumesDropout) {
  Job job = job_with(OptimizerKind::kSgd);
  job.model = {.kind = ModelKind::kGpt, .gpt = {.vocab = 16, .context = 1, .dropout = 0.5}};
  job.loss.kind = LossKind::kCrossEntropy;
  expect_same_after_each_stop(job);
  std::erase(job.loop.snapshot.include, SnapshotPart::kRng);
  OneRank one;
  EXPECT_NE(stopped_and_resumed(job, 3), run(one, job));
}

TEST(Snapshot, DiffersWhenAPartIsLeftOut) {
  for (const SnapshotPart part : {SnapshotPart::kModel,
                                  SnapshotPart::kOptimizer,
                                  SnapshotPart::kScheduler,
                                  SnapshotPart::kSampler}) {
    Job job = job_with(OptimizerKind::kAdam);
    job.scheduler = {.per = RatePace::kStep, .rules = {optim::CosineAnnealingLr{.t_max = 7}}};
    OneRank one;
    const auto whole = run(one, job);
    std::erase(job.loop.snapshot.include, part);
    EXPECT_NE(stopped_and_resumed(job, 3), whole) << name_of(part);
  }
}

// -- the folder

TEST(Snapshot, KeepsTheNewestAndNothingElse) {
  OneRank one;
  run(one, job_with(OptimizerKind::kSgd));
  EXPECT_THAT(one.context().host().files().list("ckpt").value(),
              ElementsAre("step-00000006.manifest",
                          "step-00000006.model.safetensors",
                          "step-00000006.rank-00000.safetensors",
                          "step-00000007.manifest",
                          "step-00000007.model.safetensors",
                          "step-00000007.rank-00000.safetensors"));
}

TEST(Snapshot, FallsBackToAnOlderOneWhenTheNewestIsDamaged) {
  OneRank one;
  const Job job = job_with(OptimizerKind::kAdam);
  const auto whole = run(one, job);
  FileSystem& files = one.context().host().files();
  ASSERT_TRUE(files.write("ckpt/step-00000007.model.safetensors", "half").ok());
  SnapshotFiles folder(files, "ckpt", PublishManner::kAtomic);
  EXPECT_THAT(folder.damaged().value(), ElementsAre("step-00000007.manifest"));
  std::vector<SnapshotFiles::Damage> skipped;
  EXPECT_EQ(folder.newest_whole(&skipped).value()->step, 6);
  ASSERT_THAT(skipped, SizeIs(1));
  EXPECT_EQ(skipped[0].step, 7);
  EXPECT_EQ(skipped[0].reason.text(),
            "ckpt/step-00000007.model.safetensors: not what the snapshot's manifest says");
  EXPECT_EQ(run(one, job), whole);
  EXPECT_THAT(folder.damaged().value(), IsEmpty());
}

// Names that people give to checkpoints, and near misses of this project's own.
constexpr std::string_view kForeignNames[] = {"step-0.notes.md",
                                              "step-00000001.manifest.bak",
                                              "step-00000001.model.pt",
                                              "step-00000001.rank-0.safetensors",
                                              "step-00000001.rank-00000.safetensors.old",
                                              "step-00000001.model.safetensors.part-zz",
                                              "step-0000001.model.safetensors",
                                              "step-1.model.safetensors",
                                              "step-1.pt",
                                              "step-2",
                                              "step--0000001.model.safetensors"};

TEST(Snapshot, PruningLeavesTheFilesOfOthersAlone) {
  OneRank one;
  FileSystem& files = one.context().host().files();
  ASSERT_TRUE(files.make_folder("ckpt").ok());
  for (const std::string_view name : kForeignNames) {
    ASSERT_TRUE(files.write("ckpt/" + std::string(name), "foreign").ok());
  }
  run(one, job_with(OptimizerKind::kSgd));
  for (const std::string_view name : kForeignNames) {
    EXPECT_EQ(files.read("ckpt/" + std::string(name)).value(), "foreign") << name;
  }
}

TEST(Snapshot, PruningRemovesWhatAnInterruptedSaveLeft) {
  OneRank one;
  FileSystem& files = one.context().host().files();
  ASSERT_TRUE(files.make_folder("ckpt").ok());
  for (const char* name : {"step-00000001.model.safetensors.part",
                           "step-00000001.rank-00004.safetensors",
                           "step-00000002.rank-123456.safetensors.part-0123456789ab",
                           "step-00000002.manifest.part-0123456789ab",
                           // Of a step that is kept: a rank was killed while it wrote.
                           "step-00000007.rank-00000.safetensors.part-0123456789ab"}) {
    ASSERT_TRUE(files.write("ckpt/" + std::string(name), "left").ok());
  }
  run(one, job_with(OptimizerKind::kSgd));
  EXPECT_THAT(files.list("ckpt").value(), SizeIs(6));
}

TEST(Snapshot, ARunThatDoesNotResumeRefusesAFolderInUse) {
  OneRank one;
  Job job = job_with(OptimizerKind::kAdam);
  run(one, job);
  FileSystem& files = one.context().host().files();
  const auto before = files.list("ckpt").value();
  job.loop.snapshot.resume = false;
  job.loop.steps = 2;
  try {
    run(one, job);
    FAIL() << "the snapshots of another run were written over";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("ckpt: this folder has snapshots of another run, up to step 7"));
  }
  EXPECT_EQ(files.list("ckpt").value(), before);
}

TEST(Snapshot, ARestartThatDoesNotResumeStartsFromScratch) {
  OneRank one;
  Job job = job_with(OptimizerKind::kAdam);
  const auto whole = run(one, job);
  job.loop.snapshot.resume = false;
  one.host().variables["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_EQ(run(one, job), whole);
}

TEST(Snapshot, SaysWhatDoesNotFit) {
  OneRank one;
  run(one, job_with(OptimizerKind::kSgd));
  Job other = job_with(OptimizerKind::kSgd);
  other.model.widths = {1, 4, 1};
  try {
    run(one, other);
    FAIL() << "a snapshot of another model was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a different shape or dtype for '0.weight'"));
  }
}

}  // namespace
}  // namespace lockstep
