#include "lockstep/laws/law_id.h"

#include <gtest/gtest.h>

#include "lockstep/laws/law.h"

namespace lockstep {
namespace {

TEST(LawIdTest, EveryLawOfTheContractHasItsIdInTheOrderOfNumbers) {
  ASSERT_EQ(all_laws().size(), every<LawId>().size());
  for (const LawId id : every<LawId>()) {
    const LawInfo* const law = find_law(name_of(id));
    ASSERT_NE(law, nullptr) << name_of(id);
    EXPECT_EQ(law->number, static_cast<std::int32_t>(id) + 1) << name_of(id);
  }
}

}  // namespace
}  // namespace lockstep
