// PyTorch and safetensors themselves are asked in python/tests/torch_jobs/state_files_test.py; here stand
// the cases that they cannot write.
#include "lockstep/formats/state_file.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "lockstep/formats/detail/state_pickle.h"
#include "lockstep/formats/detail/stored_zip.h"

namespace lockstep {
namespace {

StateFile two_tensors() {
  StateFile state;
  state.tensors.push_back({"a", ElementType::kF32, {2}, std::string("\0\0\x80\x3f\0\0\0\x40", 8)});
  state.tensors.push_back({"none", ElementType::kI64, {0, 3}, ""});
  return state;
}

void expect_equal(const StateFile& left, const StateFile& right) {
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (std::size_t i = 0; i < left.tensors.size(); ++i) {
    EXPECT_EQ(left.tensors[i].name, right.tensors[i].name);
    EXPECT_EQ(left.tensors[i].type, right.tensors[i].type);
    EXPECT_EQ(left.tensors[i].sizes, right.tensors[i].sizes);
    EXPECT_EQ(left.tensors[i].bytes, right.tensors[i].bytes);
  }
}

std::string refusal_of(std::string_view bytes) {
  const Result<StateFile> state = parse_state(bytes, "x");
  return state.ok() ? "no error" : state.error().text();
}

TEST(StateFileTest, ReadsBackWhatItWritesInBothFormats) {
  const StateFile state = two_tensors();
  const Result<StateFile> torch = parse_state(render_torch(state), "x");
  ASSERT_TRUE(torch.ok()) << torch.error().text();
  EXPECT_EQ(torch.value().format, StateFormat::kTorch);
  expect_equal(torch.value(), state);
  const Result<StateFile> safe = parse_state(render_safetensors(state).value(), "x");
  ASSERT_TRUE(safe.ok()) << safe.error().text();
  EXPECT_EQ(safe.value().format, StateFormat::kSafetensors);
  expect_equal(safe.value(), state);
}

TEST(StateFileTest, RefusesEveryCut) {
  const std::string torch = render_torch(two_tensors());
  const std::string safe = render_safetensors(two_tensors()).value();
  for (std::size_t n = 0; n < torch.size(); ++n) {
    EXPECT_FALSE(parse_state(torch.substr(0, n), "x").ok()) << n;
  }
  for (std::size_t n = 0; n < safe.size(); ++n) {
    EXPECT_FALSE(parse_state(safe.substr(0, n), "x").ok()) << n;
  }
}

// With no bytes every size divides their number: memory after the file must not become a weight.
TEST(StateFileTest, RefusesAShapeWithoutItsBytes) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[30000,10000],"data_offsets":[0,0]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  EXPECT_EQ(refusal_of(bytes + header), "x: tensor 'a': shape and data_offsets disagree");
}

TEST(StateFileTest, WhatARefusalQuotesOfAFileStaysInItsLine) {
  const std::string header =
      R"({"a\nmoved up\u001b[2A":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})";
  const std::string length = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(refusal_of(length + header + std::string(8, '0')),
            R"(x: tensor 'a\nmoved up\x1b[2A': shape and data_offsets disagree)");
}

TEST(StateFileTest, RefusesNamesThatAreNotInTheList) {
  const std::string_view pickle =
      "\x80\x02"
      "cos\nsystem\nX\x02\0\0\0id\x85R.";
  const Result<detail::PickledState> state =
      detail::read_state_pickle(std::string_view(pickle.data(), 26));
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().message, "it asks for 'os.system', which a state dict does not hold");
}

TEST(StateFileTest, RefusesDictionariesThatHoldThemselves) {
  // d = {}; d["a"] = d
  const std::string pickle("\x80\x02}q\0X\x01\0\0\0ah\0s.", 15);
  const Result<detail::PickledState> state = detail::read_state_pickle(pickle);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().message, "dictionaries more than 64 deep");
}

TEST(StoredZipTest, SizesOf64BitsReadBack) {
  for (const std::uint64_t long_from : {std::uint64_t{0}, std::uint64_t{100}}) {
    detail::StoredZip zip(long_from);
    zip.add("one/a", std::string(50, 'a'));
    zip.add("one/b", std::string(200, 'b'));
    const std::string bytes = zip.finish();
    const Result<std::vector<detail::ZipMember>> members = detail::read_stored_zip(bytes);
    ASSERT_TRUE(members.ok()) << members.error().text();
    ASSERT_EQ(members.value().size(), 2U);
    EXPECT_EQ(members.value()[0].data, std::string(50, 'a'));
    EXPECT_EQ(members.value()[1].name, "one/b");
    EXPECT_EQ(members.value()[1].data, std::string(200, 'b'));
  }
}

TEST(StoredZipTest, DataBeginsWherePyTorchCanMapIt) {
  detail::StoredZip zip;
  zip.add("a", "x");
  zip.add("archive/data/0", std::string(100, 'y'));
  const std::string bytes = zip.finish();
  const Result<std::vector<detail::ZipMember>> members = detail::read_stored_zip(bytes);
  ASSERT_TRUE(members.ok());
  for (const detail::ZipMember& member : members.value()) {
    EXPECT_EQ((member.data.data() - bytes.data()) % 64, 0) << member.name;
  }
}

TEST(StoredZipTest, RefusesMembersThatShareTheirBytes) {
  detail::StoredZip zip;
  zip.add("a", std::string(1000, 'x'));
  std::string bytes = zip.finish();
  // The directory names the one member twice.
  const std::size_t directory = bytes.rfind(std::string("PK\x01\x02", 4));
  const std::size_t end = bytes.rfind(std::string("PK\x05\x06", 4));
  const std::string entry = bytes.substr(directory, end - directory);
  bytes.insert(end, entry + entry);
  bytes[bytes.size() - 12] = 3;
  const Result<std::vector<detail::ZipMember>> members = detail::read_stored_zip(bytes);
  ASSERT_FALSE(members.ok());
  EXPECT_EQ(members.error().message, "the archive's member 'a' overlaps others");
}

}  // namespace
}  // namespace lockstep
