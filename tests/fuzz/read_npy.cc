// Reads arbitrary bytes as an array that NumPy saved.
#include "lockstep/base/check.h"
#include "lockstep/data/npy.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  const Result<data::NpyArray> array = data::parse_npy(bytes, "array.npy");
  if (!array.ok()) return expect_a_sentence(array.error());
  const data::NpyArray& got = array.value();
  LOCKSTEP_CHECK(got.rows * got.columns == static_cast<std::int64_t>(got.values.size()),
                 "sizes are those of the values");
}

}  // namespace lockstep::fuzz
