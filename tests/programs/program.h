// Generated data-parallel jobs as one line of text, so that this library and PyTorch can run the
// same one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/tensor/dtype.h"

namespace lockstep::programs {

/// One layer of a branch, written as in "L3x4bf", "R", "N4", "P" or "W5":
/// L linear (b: bias, f: frozen weight, t<k>: the weight of the k-th linear layer), R relu, N batch
/// norm in evaluation, P adds a buffer that each forward changes, W the root module's parameter "w"
/// times constants. S5x3 begins a branch: rows of an embedding of 5 by 3 with sparse gradients.
struct Layer {
  char kind = 'L';
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  bool frozen = false;
  std::int32_t tied = -1;
};

/// Layers that turn the rank's inputs into one output of the forward: "use/dtype/layers/loss".
///
/// use:  all | never | rank0 | others | odd (rank + step) | even | first | later (steps)
/// loss: out (returned, in the loss) | drop (not in the loss) | flip (in the loss at even steps) |
///       hide (in the loss, but not returned where DDP can see it)
struct Branch {
  std::string use = "all";
  DType dtype = DType::kF32;
  std::vector<Layer> layers;
  std::string loss = "out";
};

/// A whole job. Each letter of `steps` is one micro-step: s forward and backward; n both under
/// no_sync; N, b the forward or the backward alone under no_sync; e forward without grad; E forward
/// without backward; t two forwards and one backward; r two backwards; i around the wrapper.
struct Program {
  std::int32_t world = 2;
  std::uint64_t seed = 0;
  std::int64_t rows = 2;
  std::int64_t in = 3;
  std::string steps = "sss";
  std::string zero = "none";  ///< Gradients after an update: none | zero | keep.
  std::string hook = "none";  ///< none | allreduce | fp16 | noop | builtin-allreduce | builtin-fp16
  std::string flaw = "none";  ///< none | frozen | extra (rank 1 has one more) | devices
  bool static_graph = false;
  bool find_unused = false;
  bool view = false;
  bool broadcast = true;
  std::int64_t cap_bytes = -1;
  std::int64_t first_bytes = 1'048'576;
  std::vector<std::string> ignored;
  std::vector<std::int64_t> join;  ///< Inputs by rank; empty: no join context.
  bool divide_initial = true;
  bool throws = false;
  std::vector<Branch> branches;
};

/// Requires: a line that text_of() wrote.
Program parse_program(std::string_view line);
std::string text_of(const Program& program);

bool is_used(const Branch& branch, std::int32_t rank, std::int64_t step);
bool is_in_loss(const Branch& branch, std::int64_t step);

/// A 64-bit number that both sides draw from the same words.
std::uint64_t draw(std::uint64_t seed, std::string_view purpose, std::vector<std::int64_t> words);

/// Whether a branch has sparse gradients.
bool has_sparse(const Program& program);

}  // namespace lockstep::programs
