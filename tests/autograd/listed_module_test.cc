// What parameters are called that no wrapper has named.
#include "lockstep/autograd/listed_module.h"

#include <optional>

#include <gtest/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using Names = std::vector<std::string>;

class Part final : public ListedModule {
 public:
  Part(Runtime& runtime, std::vector<NamedVariable> parameters)
      : ListedModule(runtime), parameters_(std::move(parameters)) {}

  std::vector<NamedVariable> named_parameters(bool /*remove_duplicate*/) const override {
    return parameters_;
  }

 private:
  std::vector<NamedVariable> parameters_;
};

class NamesOfTest : public ::testing::Test {
 protected:
  Variable leaf() { return Variable(Tensor::zeros(rt_.runtime, {1}, DType::kF32), true); }

  TestRuntime rt_;
  Variable a_ = leaf();
  Variable b_ = leaf();
  Variable c_ = leaf();
};

TEST_F(NamesOfTest, NamesComeFromTheSmallestModuleThatHasAllParameters) {
  const Part whole(rt_.runtime, {{"x.a", a_}, {"x.b", b_}, {"y.c", c_}});
  const Part half(rt_.runtime, {{"a", a_}, {"b", b_}});
  EXPECT_EQ(names_of(std::vector{b_, a_}), (Names{"b", "a"}));
  EXPECT_EQ(names_of(std::vector{a_, c_}), (Names{"x.a", "y.c"}));
}

// A module is made before its parts.
TEST_F(NamesOfTest, AModuleNamesTheParametersOfItsOnlyPart) {
  const Part whole(rt_.runtime, {{"inner.a", a_}});
  const Part inner(rt_.runtime, {{"a", a_}});
  EXPECT_EQ(names_of(std::vector{a_}), Names{"inner.a"});
}

TEST_F(NamesOfTest, ParametersWithoutACommonModuleAreNamedByTheirPlaces) {
  const Part one(rt_.runtime, {{"a", a_}, {"b", b_}});
  const Part other(rt_.runtime, {{"c", c_}});
  EXPECT_EQ(names_of(std::vector{a_, b_, c_}),
            (Names{"parameter.0", "parameter.1", "parameter.2"}));
  EXPECT_EQ(names_of({}), Names{});
}

TEST_F(NamesOfTest, AModuleThatIsGoneIsNotAsked) {
  std::optional<Part> first(std::in_place, rt_.runtime, std::vector<NamedVariable>{{"first", a_}});
  std::optional<Part> second(
      std::in_place, rt_.runtime, std::vector<NamedVariable>{{"second", a_}});
  std::optional<Part> third(std::in_place, rt_.runtime, std::vector<NamedVariable>{{"third", a_}});
  first.reset();
  EXPECT_EQ(names_of(std::vector{a_}), Names{"second"});
  second.reset();
  EXPECT_EQ(names_of(std::vector{a_}), Names{"third"});
  third.reset();
  EXPECT_EQ(names_of(std::vector{a_}), Names{"parameter.0"});
  EXPECT_EQ(rt_.runtime.modules(), nullptr);
}

}  // namespace
}  // namespace lockstep
