// The command line that people type for torchrun and for `python -m torch.distributed.launch`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/real/launch/launch_options.h"
#include "lockstep/real/launch/worker_environment.h"

namespace lockstep::torchrun {

/// The options of torchrun as they were typed; names and defaults are torchrun's.
///
/// Source: get_args_parser() of torch.distributed.run and parse_args() of torch.distributed.launch,
///     PyTorch 2.15.
struct Words {
  std::string as = "torchrun";  ///< Whose rules hold; "torch.distributed.launch" is the other.
  std::string nnodes = "1";
  std::string nproc_per_node = "1";
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id = "none";
  std::string rdzv_conf;
  bool standalone = false;
  std::int32_t max_restarts = 0;
  double monitor_interval_s = 0.1;
  std::string start_method;
  std::string event_log_handler;
  std::string role = "default";
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string log_line_prefix_template;
  std::string local_ranks_filter;
  std::string duplicate_stdout_filters;
  std::string duplicate_stderr_filters;
  std::optional<std::int64_t> node_rank;
  std::string master_addr = "127.0.0.1";
  std::optional<std::int64_t> master_port;
  std::string local_addr;
  std::string logs_specs;
  std::string numa_binding;
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  double shutdown_timeout_s = 30.0;
  bool virtual_local_rank = false;
  std::string print_completion;
  bool use_env = false;  ///< Of torch.distributed.launch alone.
};

/// What follows the options.
struct Program {
  std::vector<std::string> words;  ///< The program or script, and its arguments.
  bool after_dashes = false;       ///< It follows "--": it is executed as it is.
};

struct Reading {
  launch::LaunchOptions options;
  /// One sentence for each word that has no effect here, or another than under torchrun.
  std::vector<std::string> notices;
};

/// What the launcher is to do, of what a user of torchrun typed.
///
/// `inherited`: the environment; PYTHON_EXEC, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE and
///     CUDA_VISIBLE_DEVICES are looked at.
/// Errors: words that torchrun refuses, too; words that would change what ranks do or where their
///     output goes, and that this launcher cannot follow.
Result<Reading> read_words(const Words& words,
                           const Program& program,
                           const launch::Lookup& inherited);

}  // namespace lockstep::torchrun
