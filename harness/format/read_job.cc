// model, loader, loss, optimizer, loop, ddp.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/companion/companion.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

DType read_dtype(TableReader& table, DType fallback) {
  const std::string name = table.word("dtype", name_of(fallback), {"f32", "f64"}, {"f16", "bf16"});
  return parse_word<DType>(name).value_or(fallback);
}

InitSpec read_init(TableReader& model, Problem& problem) {
  InitSpec init;
  const TomlNode* node = model.table("init");
  if (node == nullptr) return init;
  TableReader table(*node, "model.init", problem);
  init.kind = table.word("kind", init.kind, {"file"});
  init.value = table.number("value", 0.0);
  init.values = table.numbers("values");
  init.seed = table.seed("seed");
  init.seed_by_rank = table.flag("seed_by_rank", false);
  init.grid = table.small("grid", init.grid, 0, 30);
  table.finish();
  if (init.kind == InitKind::kValues && init.values.empty()) {
    problem.report("model.init.kind = \"values\" needs 'values'", table.where());
  }
  return init;
}

/// The widths if a model of this kind can have them.
std::vector<std::int64_t> checked_widths(std::vector<std::int64_t> widths,
                                         ModelKind kind,
                                         TableReader& model) {
  const bool one_layer = kind == ModelKind::kScalar || kind == ModelKind::kLinear;
  const bool two_heads = kind == ModelKind::kTwoHead;
  const bool positive = std::all_of(widths.begin(), widths.end(), [](auto w) { return w > 0; });
  const std::size_t n = widths.size();
  const bool fits = one_layer ? n == 2 : two_heads ? n == 3 : n >= 2;
  bool affordable = true;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    affordable = affordable && is_affordable(std::span(widths).subspan(i, 2));
  }
  if (fits && positive && affordable) return widths;
  if (fits && positive) {
    model.problem().report("'model.widths' ask for a layer of more than 2^31 weights",
                           model.where("widths"));
    return {1, 1, 1};
  }
  const char* number = one_layer ? "two" : two_heads ? "three" : "two or more";
  model.problem().report("'model.widths' of kind \"" + std::string(name_of(kind)) + "\" must be " +
                             number + " positive integers",
                         model.where("widths"));
  return {1, 1, 1};
}

/// Widths as layers see them: `in` and `out` are the short form of models with one layer.
std::vector<std::int64_t> read_widths(TableReader& model, ModelKind kind, Problem& problem) {
  std::vector<std::int64_t> widths = model.integers("widths");
  const bool short_form = model.has("in") || model.has("out");
  const std::int64_t in = model.integer("in", 1, 1);
  const std::int64_t out = model.integer("out", 1, 1);
  if (short_form && kind != ModelKind::kLinear) {
    problem.report("'model.in' and 'model.out' belong to kind = \"linear\"; '" +
                       std::string(name_of(kind)) + "' takes 'widths'",
                   model.where());
  }
  if (kind == ModelKind::kScalar && widths.empty()) widths = {1, 1};
  if (kind == ModelKind::kLinear && widths.empty()) widths = {in, out};
  if (widths.empty()) widths = ModelSpec().widths;
  return checked_widths(std::move(widths), kind, model);
}

/// Images, filters and batch norm of a cnn. Each stage halves the image, which has to last.
void read_images(TableReader& table, ModelSpec& model, Problem& problem) {
  const bool cnn = model.kind == ModelKind::kCnn;
  for (const char* key : {"image", "kernel", "batch_norm"}) {
    if (cnn || !table.has(key)) continue;
    problem.report("'model." + std::string(key) + "' belongs to kind = \"cnn\"", table.where(key));
  }
  model.image = table.integers("image");
  model.kernel = table.integer("kernel", model.kernel, 1);
  model.batch_norm = table.flag("batch_norm", false);
  if (!cnn) return;
  if (model.kernel % 2 == 0) problem.report("'model.kernel' must be odd", table.where("kernel"));
  const auto n_stages = static_cast<std::int64_t>(model.widths.size()) - 1;
  const std::int64_t least = n_stages < 20 ? std::int64_t{1} << n_stages : INT64_MAX;
  const std::vector<std::int64_t>& image = model.image;
  if (image.size() == 3 && !is_affordable(image)) {
    problem.report("'model.image' has more than 2^31 values", table.where("image"));
  } else if (image.size() == 3 && image[0] > 0 && image[1] >= least && image[2] >= least) {
    return;
  }
  problem.report("a cnn of " + std::to_string(n_stages) +
                     " stages needs 'model.image = [channels, height, width]' of at least " +
                     std::to_string(least) + " by " + std::to_string(least),
                 table.where("image"));
  model.image = {1, least, least};
}

ModelSpec read_model(TableReader& root, const ExactSpec& exact, Problem& problem) {
  TableReader table = section(root, "model", problem);
  ModelSpec model;
  model.kind = table.word("kind", model.kind, {"dropout", "tied", "embedding", "layers"});
  model.widths = read_widths(table, model.kind, problem);
  read_images(table, model, problem);
  if (model.kind == ModelKind::kGpt) model.gpt = read_gpt(table, problem);
  model.activation = table.word("activation", model.activation, {"gelu"});
  model.checkpoint = table.word("checkpoint", model.checkpoint);
  if (model.checkpoint != CheckpointKind::kNone && model.kind != ModelKind::kMlp &&
      model.kind != ModelKind::kBn) {
    problem.report("'model.checkpoint' is for the layers of an mlp", table.where("checkpoint"));
  }
  model.bias = table.flag("bias", model.kind != ModelKind::kScalar);
  // Single precision runs out of bits after one exact step; double lasts for hundreds.
  DType fallback = exact.on ? DType::kF64 : DType::kF32;
  if (const TomlNode* node = root.table("exact")) {
    TableReader exact_table(*node, "exact", problem);
    fallback = read_dtype(exact_table, fallback);
  }
  model.dtype = read_dtype(table, fallback);
  model.head = table.word("head", model.head);
  model.freeze = table.texts("freeze");
  model.init = read_init(table, problem);
  table.finish();
  return model;
}

AugmentSpec read_augment(TableReader& loader, Problem& problem) {
  AugmentSpec augment;
  const TomlNode* node = loader.table("augment");
  if (node == nullptr) return augment;
  TableReader table(*node, "loader.augment", problem);
  augment.stream = table.word("stream", AugmentStream::kWorker);
  augment.seed = table.seed("seed");
  augment.seed_by_rank = table.flag("seed_by_rank", true);
  table.finish();
  return augment;
}

LoaderSpec read_loader(TableReader& root, Problem& problem) {
  TableReader table = section(root, "loader", problem);
  LoaderSpec loader;
  loader.batch = table.integer("batch", 0, 1);  // 0 = not given: read_job knows the default.
  loader.sampler = table.word("sampler", loader.sampler, {"weighted"});
  loader.rank = table.integer("rank", -1, -1);
  loader.shuffle = table.flag("shuffle", loader.shuffle);
  loader.seed = table.seed("seed");
  loader.set_epoch = table.flag("set_epoch", loader.set_epoch);
  loader.drop_last = table.flag("drop_last", loader.drop_last);
  if (const TomlNode* lists = table.array("batches_by_rank")) {
    for (const TomlNode& list : lists->items) {
      loader.batches_by_rank.push_back(integers_of(list, "loader.batches_by_rank", problem));
    }
  }
  loader.workers = table.small("workers", 0, 0, 10'000);
  loader.persistent = table.flag("persistent", false);
  if (loader.persistent && loader.workers == 0) {
    problem.report("persistent_workers option needs num_workers > 0", table.where("persistent"));
  }
  loader.augment = read_augment(table, problem);
  const bool even =
      loader.sampler != SamplerKind::kStream && loader.sampler != SamplerKind::kBatchesByRank;
  if (loader.augment.stream != AugmentStream::kNone && !even) {
    problem.report("'loader.augment' needs a sampler whose batches have one size",
                   table.where("augment"));
  }
  table.finish();
  if (loader.sampler == SamplerKind::kBatchesByRank && loader.batches_by_rank.empty()) {
    problem.report("sampler = \"batches_by_rank\" needs 'batches_by_rank': [[2, 2], [1]]",
                   table.where());
  }
  return loader;
}

LossSpec read_loss(TableReader& root, Problem& problem) {
  TableReader table = section(root, "loss", problem);
  LossSpec loss;
  loss.kind = table.word("kind", loss.kind, {"smooth-l1", "hinge"});
  loss.normalize = table.word("normalize", loss.normalize);
  loss.declared = table.word("declared", loss.declared);
  table.finish();
  return loss;
}

EvalSpec read_eval(TableReader& loop, Problem& problem) {
  EvalSpec eval;
  const TomlNode* node = loop.table("eval");
  if (node == nullptr) return eval;
  TableReader table(*node, "loop.eval", problem);
  eval.every_epochs = table.integer("every_epochs", 1, 1);
  eval.metric = table.word("metric", eval.metric);
  eval.dedup = table.flag("dedup", true);
  eval.forward = table.word("forward", eval.forward);
  eval.drop_last = table.flag("drop_last", false);
  eval.average = table.word("average", eval.average);
  table.finish();
  return eval;
}

/// A list of parts of snapshots, out of all there are.
std::vector<SnapshotPart> read_parts_of_snapshot(TableReader& table,
                                                 std::string_view key,
                                                 Problem& problem) {
  if (!table.has(key)) return SnapshotSpec().include;
  std::vector<SnapshotPart> parts;
  for (const std::string& word : table.texts(key)) {
    const std::optional<SnapshotPart> part = parse_word<SnapshotPart>(word);
    if (part) {
      parts.push_back(*part);
    } else {
      problem.report("a snapshot has no part '" + word + "'", table.where(key));
    }
  }
  return parts;
}

SnapshotSpec read_snapshot(TableReader& loop, Problem& problem) {
  SnapshotSpec snapshot;
  const TomlNode* node = loop.table("snapshot");
  if (node == nullptr) return snapshot;
  TableReader table(*node, "loop.snapshot", problem);
  snapshot.every_steps = table.integer("every_steps", 1, 1);
  snapshot.path = table.text("path", snapshot.path);
  if (snapshot.path.empty()) {
    problem.report("'loop.snapshot.path' names no folder", table.where("path"));
  }
  snapshot.keep = table.integer("keep", snapshot.keep, 0);
  snapshot.resume = table.flag("resume", true);
  snapshot.publish = table.word("publish", snapshot.publish);
  snapshot.include = read_parts_of_snapshot(table, "include", problem);
  snapshot.load = read_parts_of_snapshot(table, "load", problem);
  snapshot.rng = table.word("rng", snapshot.rng);
  snapshot.writer = table.word("writer", snapshot.writer);
  snapshot.epoch = table.word("epoch", snapshot.epoch);
  snapshot.batches = table.word("batches", snapshot.batches);
  snapshot.resize = table.word("resize", snapshot.resize);
  table.finish();
  return snapshot;
}

/// PyTorch's arguments of the context, by their names.
std::optional<JoinOptions> read_join(TableReader& loop, Problem& problem) {
  const TomlNode* node = loop.table("join");
  if (node == nullptr) return std::nullopt;
  TableReader table(*node, "loop.join", problem);
  JoinOptions join;
  join.site = {};
  join.enable = table.flag("enable", true);
  join.throw_on_early_termination = table.flag("throw_on_early_termination", false);
  join.divide_by_initial_world_size = table.flag("divide_by_initial_world_size", true);
  table.finish();
  return join;
}

LoopSpec read_loop(TableReader& root, Problem& problem) {
  TableReader table = section(root, "loop", problem);
  LoopSpec loop;
  if (table.has("steps")) loop.steps = table.integer("steps", 1, 0);
  loop.epochs = table.integer("epochs", 1, 0);
  loop.accumulate = table.integer("accumulate", 1, 1);
  loop.no_sync = table.flag("no_sync", false);
  loop.rest = table.word("rest", loop.rest);
  loop.zero_grad = table.word("zero_grad", loop.zero_grad);
  loop.forward = table.word("forward", loop.forward);
  loop.redo = table.flag("redo", false);
  loop.eval = read_eval(table, problem);
  loop.snapshot = read_snapshot(table, problem);
  loop.join = read_join(table, problem);
  table.finish();
  return loop;
}

DdpSpec read_ddp(TableReader& root, const JobSurroundings& around, Problem& problem) {
  TableReader table = section(root, "ddp", problem);
  DdpSpec ddp;
  DdpOptions& options = ddp.options;
  options.compat = around.compat;
  options.site = {};
  options.broadcast_buffers = table.flag("broadcast_buffers", true);
  options.init_sync = table.flag("init_sync", true);
  options.bucket_cap_mb = table.number("bucket_cap_mb", options.bucket_cap_mb);
  options.first_bucket_bytes = table.integer("first_bucket_bytes", options.first_bucket_bytes, 1);
  options.find_unused_parameters = table.flag("find_unused_parameters", false);
  options.gradient_as_bucket_view = table.flag("gradient_as_bucket_view", false);
  options.static_graph = table.flag("static_graph", false);
  options.ignored = table.texts("ignore");
  for (const std::int64_t id : table.integers("device_ids")) {
    options.device_ids.push_back(static_cast<std::int32_t>(id));
  }
  if (table.has("output_device")) {
    options.output_device = static_cast<std::int32_t>(table.integer("output_device", 0, 0));
  }
  ddp.wrap = table.flag("wrap", true);
  ddp.average = table.word("average", ddp.average);
  ddp.average_order = table.word("average_order", ddp.average_order);
  ddp.hook = read_hook(table, around, problem);
  if (table.flag("sync_bn", false)) table.not_yet({"sync_bn"});
  table.not_yet({"mixed_precision", "delay_all_reduce_named_params"});
  table.finish();
  if (ddp.wrap && ddp.average != AverageBy::kDdp) {
    problem.report("'ddp.average = \"" + std::string(name_of(ddp.average)) +
                       "\"' is for hand-written loops: set wrap = false",
                   table.where("average"));
  }
  if (!ddp.wrap && ddp.hook.kind != HookKind::kNone) {
    problem.report("'ddp.hook' takes the place of the wrapper's all-reduce: set wrap = true",
                   table.where("hook"));
  }
  return ddp;
}

/// Ranks under a join context take different numbers of steps.
void check_join(const Job& job, TableReader& root, Problem& problem) {
  if (!job.loop.join) return;
  const std::string where = section(root, "loop", problem).where("join");
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) problem.report("'loop.join' " + why, where);
  };
  refuse(!job.ddp.wrap, "shadows a wrapper's collectives: set ddp.wrap = true");
  refuse(job.loop.steps.has_value(),
         "needs 'epochs', because ranks take different numbers of steps");
  refuse(job.loop.snapshot.every_steps > 0,
         "does not support snapshots, because ranks are at different steps");
  refuse(job.ddp.options.static_graph, "cannot shadow a static graph");
}

/// Quantization is for single precision alone.
void check_hook_dtype(const Job& job, TableReader& root, Problem& problem) {
  const HookKind kind = job.ddp.hook.kind;
  const bool quantizes =
      kind == HookKind::kQuantizePerTensor || kind == HookKind::kQuantizePerChannel;
  if (!quantizes || job.model.dtype == DType::kF32) return;
  problem.report("the hook '" + std::string(name_of(kind)) +
                     "' takes f32 gradients: set model.dtype = \"f32\"",
                 section(root, "ddp", problem).where("hook"));
}

void check_initial_values(const Job& job, TableReader& root, Problem& problem) {
  if (job.model.init.kind != InitKind::kValues) return;
  const std::int64_t n = n_parameters(job.model);
  const auto n_given = static_cast<std::int64_t>(job.model.init.values.size());
  if (n == n_given) return;
  problem.report("the model has " + std::to_string(n) + " elements, 'model.init.values' has " +
                     std::to_string(n_given),
                 section(root, "model", problem).where("init"));
}

}  // namespace

std::shared_ptr<const Job> read_job(TableReader& root,
                                    const JobSurroundings& around,
                                    Problem& problem) {
  auto job = std::make_shared<Job>();
  job->exact = around.exact;
  job->model = read_model(root, around.exact, problem);
  job->loader = read_loader(root, problem);
  job->loss = read_loss(root, problem);
  read_optimization(root, *job, problem);
  job->loop = read_loop(root, problem);
  job->ddp = read_ddp(root, around, problem);
  check_join(*job, root, problem);
  check_hook_dtype(*job, root, problem);
  check_sharing(*job, around.n_ranks, root, problem);
  if (job->clip.before_sync && job->ddp.wrap) {
    problem.report("'clip.when = \"before-sync\"' is for hand-written loops: set ddp.wrap = false",
                   root.where("clip"));
  }
  if (!problem.found()) read_data(root, around, *job, problem);
  if (!problem.found()) check_initial_values(*job, root, problem);
  return job;
}

}  // namespace lockstep
