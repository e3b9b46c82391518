// loop, with what happens at its ends: evaluation, snapshots, a join context.
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

const Section<EvalSpec>& eval_section() {
  static const Section<EvalSpec> section("loop.eval", [](Section<EvalSpec>& it) {
    it.differs_by_rank();
    it.add("every_epochs", &EvalSpec::every_epochs, "Epochs between evaluations.")
        .preset(1)
        .at_least(1)
        .counts();
    it.add("metric", &EvalSpec::metric, "What is computed over the rows held out.");
    it.add("rows",
           &EvalSpec::rows,
           "Those held out, or the batch that each rank trained on last: a loop that reuses its "
           "variables.");
    it.add("dedup", &EvalSpec::dedup, "Rows that a sampler repeats for evenness count once.");
    it.add("forward",
           &EvalSpec::forward,
           "Through the wrapper, which broadcasts buffers first, or not.");
    it.add("drop_last",
           &EvalSpec::drop_last,
           "Rows that do not divide evenly are left out, instead of padding.");
    it.add("average",
           &EvalSpec::average,
           "The mean over all samples, the mean of the ranks' means, or each rank's own mean.");
  });
  return section;
}

void check_path(TableReader& table, SnapshotSpec& snapshot) {
  if (!snapshot.path.empty()) return;
  table.problem().report("'loop.snapshot.path' names no folder", table.where("path"));
}

const Section<SnapshotSpec>& snapshot_section() {
  using Spec = SnapshotSpec;
  static const Section<Spec> section("loop.snapshot", [](Section<Spec>& it) {
    it.differs_by_rank();
    it.add("every_steps", &Spec::every_steps, "Optimizer steps between saves.")
        .preset(1)
        .at_least(1)
        .counts();
    it.add("path",
           &Spec::path,
           "A folder, of the virtual disk in the simulator and of the real one under `--backend "
           "gloo` ([SECURITY.md](../../SECURITY.md)); other files in it are left alone.");
    it.add("looks_in",
           &Spec::looks_in,
           "Where a start looks for one, and changes nothing. In another folder than `path`, "
           "it never finds what this run has saved.")
        .shown("`path`");
    it.add("keep", &Spec::keep, "Older ones are removed; 0 keeps all.").counts();
    it.add("resume",
           &Spec::resume,
           "Starts from the newest whole one. `false` begins anew and refuses a folder with "
           "snapshots of another run.");
    it.add("publish", &Spec::publish, "How a snapshot comes to have its name.");
    it.add("include", &Spec::include, "The parts a snapshot holds.");
    it.add("load", &Spec::load, "The parts a rank loads, where they are there.");
    it.add("rng", &Spec::rng, "Whose generators a rank loads.");
    it.add("writer", &Spec::writer, "Which rank writes the common part.");
    it.add("epoch", &Spec::epoch, "The epoch that a resumed rank continues with.");
    it.add("batches", &Spec::batches, "Since when those of the epoch in progress are counted.");
    it.add("resize",
           &Spec::resize,
           "What happens to the epoch in progress if the number of ranks changes.");
    it.check(check_path);
  });
  return section;
}

/// PyTorch's arguments of the context, by their names.
const Section<JoinOptions>& join_section() {
  using Options = JoinOptions;
  static const Section<Options> section("loop.join", [](Section<Options>& it) {
    it.differs_by_rank();
    it.add("enable", &Options::enable, "`false`: the context does nothing.");
    it.add("throw_on_early_termination",
           &Options::throw_on_early_termination,
           "All ranks end with an error as soon as one runs out of inputs.");
    it.add("divide_by_initial_world_size",
           &Options::divide_by_initial_world_size,
           "Gradients are divided by the number of all ranks, not of the active ones.");
    it.check([](TableReader&, Options& join) { join.site = {}; });
  });
  return section;
}

const Section<LoopSpec>& loop_section() {
  static const Section<LoopSpec> section("loop", [](Section<LoopSpec>& it) {
    it.differs_by_rank();
    it.add("steps", &LoopSpec::steps, "Optimizer steps, instead of epochs; may end mid-epoch.")
        .counts()
        .varies("the number of steps", {"1", "2", "3", "5", "10"})
        .nudged();
    it.add("epochs", &LoopSpec::epochs, "Passes over the data, without `steps`.").counts().nudged();
    it.add("accumulate", &LoopSpec::accumulate, "Micro-steps in an optimizer step.")
        .at_least(1)
        .counts()
        .nudged();
    it.add("no_sync",
           &LoopSpec::no_sync,
           "Synchronisation is left out in all micro-steps but the last.");
    it.add("rest",
           &LoopSpec::rest,
           "What happens to an epoch's last batches if they do not fill a step.");
    it.add("zero_grad",
           &LoopSpec::zero_grad,
           "Gradients become none (PyTorch's `set_to_none`) or zeros before a step, or stay.");
    it.add("forward", &LoopSpec::forward, "Through the wrapper, or past it.");
    it.add("redo", &LoopSpec::redo, "Computes each micro-step twice, for law `redo-equal`.");
    it.table("eval", &LoopSpec::eval, eval_section(), "Evaluates; absent: never.");
    it.add("barriers", &LoopSpec::barriers, "Before each of these, ranks wait for one another.");
    it.table("snapshot",
             &LoopSpec::snapshot,
             snapshot_section(),
             "What a restarted job resumes from; absent: nothing.");
    it.table("join", &LoopSpec::join, join_section(), "Uneven inputs; absent: no context.");
  });
  return section;
}

}  // namespace

std::vector<SchemaSection> loop_sections() {
  return {loop_section().described(),
          eval_section().described(),
          snapshot_section().described(),
          join_section().described()};
}

LoopSpec read_loop(TableReader& root, Problem& problem) {
  TableReader table = section(root, "loop", problem);
  LoopSpec loop;
  loop_section().read(table, loop);
  table.finish();
  return loop;
}

}  // namespace lockstep
