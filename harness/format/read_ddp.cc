// ddp: the wrapper's arguments, or what a hand-written loop does instead.
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

const Section<DdpSpec>& ddp_section() {
  using Options = DdpOptions;
  static const Section<DdpSpec> section("ddp", [](Section<DdpSpec>& it) {
    it.differs_by_rank();
    const auto option = [](auto member) { return in(&DdpSpec::options, member); };
    it.add("broadcast_buffers",
           option(&Options::broadcast_buffers),
           "Rank 0's buffers are broadcast before forwards.");
    it.add("init_sync",
           option(&Options::init_sync),
           "The constructor checks shapes and broadcasts rank 0's state.");
    it.add("bucket_cap_mb", option(&Options::bucket_cap_mb), "Size of a bucket of gradients.")
        .in_unit("MiB")
        .from(0.0)
        .shown("25, of the first bucket 1")
        .nudged({"0.00001", "0.001"});
    it.add("first_bucket_bytes",
           option(&Options::first_bucket_bytes),
           "Size of the first bucket, where buckets have the default size.")
        .at_least(1);
    it.add("find_unused_parameters",
           option(&Options::find_unused_parameters),
           "Searches the graph for parameters without gradient.");
    it.add("gradient_as_bucket_view",
           option(&Options::gradient_as_bucket_view),
           "Gradients live in the buckets' memory.")
        .nudged({"true", "false"});
    it.add("static_graph",
           option(&Options::static_graph),
           "Every backward uses the same parameters equally often.");
    it.add("ignore", option(&Options::ignored), "Names of parameters and buffers that stay local.");
    it.code("device_ids", FieldType::kIntegers, "Refused for models on the CPU.");
    it.add("output_device", option(&Options::output_device), "Refused for models on the CPU.");
    it.add("wrap", &DdpSpec::wrap, "`false`: a hand-written loop without a wrapper.");
    it.add("average", &DdpSpec::average, "Who averages; a hand-written loop: manual or none.");
    it.add("average_order",
           &DdpSpec::average_order,
           "Of a manual average: the model's order, or that in which gradients arrive, last layer "
           "first.");
    it.code("hook",
            FieldType::kAny,
            "A communication hook: one of the words of `ddp.hook.kind`, or a table with options.");
    it.code("sync_bn", FieldType::kFlag, "`true` is not supported yet.").shown("false");
    it.refuse("mixed_precision", FieldType::kAny, "Narrow copies of parameters and inputs.");
    it.refuse("delay_all_reduce_named_params",
              FieldType::kAny,
              "Parameters that are averaged together, after the others.");
  });
  return section;
}

void read_devices(TableReader& table, DdpOptions& options) {
  for (const std::int64_t id : table.integers("device_ids")) {
    options.device_ids.push_back(static_cast<std::int32_t>(id));
  }
}

void check_wrap(TableReader& table, const DdpSpec& ddp, Problem& problem) {
  if (table.flag("sync_bn", false)) table.not_yet("sync_bn");
  if (ddp.wrap && ddp.average != AverageBy::kDdp) {
    problem.report("'ddp.average = \"" + std::string(name_of(ddp.average)) +
                       "\"' is for hand-written loops: set wrap = false",
                   table.where("average"));
  }
  if (!ddp.wrap && ddp.hook.kind != HookKind::kNone) {
    problem.report("'ddp.hook' takes the place of the wrapper's all-reduce: set wrap = true",
                   table.where("hook"));
  }
}

}  // namespace

std::vector<SchemaSection> ddp_sections() { return {ddp_section().described()}; }

DdpSpec read_ddp(TableReader& root, const JobSurroundings& around, Problem& problem) {
  TableReader table = section(root, "ddp", problem);
  DdpSpec ddp;
  ddp.options.compat = around.compat;
  ddp.options.site = {};
  ddp_section().read(table, ddp);
  read_devices(table, ddp.options);
  ddp.hook = read_hook(table, around, problem);
  table.finish();
  check_wrap(table, ddp, problem);
  return ddp;
}

}  // namespace lockstep
