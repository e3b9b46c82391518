#include "lockstep/laws/law_id.h"

#include <string>

#include <gtest/gtest.h>

#include "lockstep/laws/law.h"

#include "tests/support/text_of.h"

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

TEST(LawIdTest, ThePagesCountTheLaws) {
  const std::string n_laws = std::to_string(every<LawId>().size());
  EXPECT_NE(
      testing::text_of(LOCKSTEP_SOURCE_DIR "/README.md").find("it checks " + n_laws + " laws"),
      std::string::npos);
  const std::string page = testing::text_of(LOCKSTEP_SOURCE_DIR "/docs/laws.md");
  EXPECT_NE(page.find("There are " + n_laws + " numbered laws."), std::string::npos);
  for (const LawInfo& law : all_laws()) {
    const std::string row =
        "| " + std::to_string(law.number) + " | `" + std::string(law.id) + "` |";
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace lockstep
