#include "lockstep/reducer/sparse_all_reduce.h"

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

namespace {

// Four sizes in front of what an entry holds, four of an entry, and the number of entries.
using ListFacts = std::array<std::int64_t, 9>;
constexpr std::size_t kTableRows = 0;
constexpr std::size_t kRowWidth = 4;
constexpr std::size_t kEntries = 8;

std::vector<ListFacts> gather_facts(ProcessGroup& group,
                                    const SparseRows& own,
                                    const OpOptions& options) {
  ListFacts mine{};
  mine[kTableRows] = own.dense_shape()[0];
  mine[kRowWidth] = own.dense_shape()[1];
  mine[kEntries] = own.n_entries();
  std::vector<ListFacts> all(static_cast<std::size_t>(group.size()));
  std::vector<Memory> outputs;
  outputs.reserve(all.size());
  for (ListFacts& facts : all) outputs.push_back(Memory::of(std::span<std::int64_t>(facts)));
  group.all_gather(outputs, Memory::of(std::span<std::int64_t>(mine)), options).wait_or_throw();
  for (const ListFacts& facts : all) {
    if (facts[kTableRows] != mine[kTableRows] || facts[kRowWidth] != mine[kRowWidth]) {
      throw ReducerError("Sparse dimensions do not match");
    }
  }
  return all;
}

// Every rank's tensor, uneven in its first dimension.
std::vector<Tensor> gather_uneven(ProcessGroup& group,
                                  const Tensor& own,
                                  std::span<const Shape> shapes,
                                  const OpOptions& options) {
  std::vector<Tensor> all;
  std::vector<Memory> outputs;
  all.reserve(shapes.size());
  outputs.reserve(shapes.size());
  for (const Shape& shape : shapes) {
    all.push_back(Tensor::empty(group.runtime(), shape, own.dtype()));
    outputs.push_back(Memory::of(all.back()));
  }
  group.all_gather(outputs, Memory::of(own), options).wait_or_throw();
  return all;
}

}  // namespace

Ref<SparseRows> all_reduce_rows(ProcessGroup& group,
                                const SparseRows& rows,
                                const OpOptions& options) {
  const Ref<SparseRows> own = rows.coalesce();
  const std::int64_t n_rows = own->dense_shape()[0];
  std::vector<Shape> index_shapes;
  std::vector<Shape> value_shapes;
  for (const ListFacts& facts : gather_facts(group, *own, options)) {
    index_shapes.push_back({facts[kEntries]});
    value_shapes.push_back({facts[kEntries], facts[kRowWidth]});
  }
  const std::vector<Tensor> indices = gather_uneven(group, own->indices(), index_shapes, options);
  const std::vector<Tensor> values = gather_uneven(group, own->values(), value_shapes, options);
  Ref<SparseRows> sum = SparseRows::make(indices[0], values[0], n_rows);
  for (std::size_t r = 1; r < indices.size(); ++r) {
    sum = merge(*sum, *SparseRows::make(indices[r], values[r], n_rows));
  }
  return sum->coalesce();
}

}  // namespace lockstep
