// Instructions of pickles, written by hand as Lib/pickletools.py describes them.
#include "lockstep/formats/detail/pickle_reader.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

PickleInstruction first_of(std::string_view bytes) {
  PickleReader reader(bytes);
  const Result<PickleInstruction> instruction = reader.next();
  EXPECT_TRUE(instruction.ok()) << instruction.error().text();
  return instruction.ok() ? instruction.value() : PickleInstruction{};
}

std::string trouble_of(std::string_view bytes) {
  PickleReader reader(bytes);
  Result<PickleInstruction> instruction = reader.next();
  while (instruction.ok()) instruction = reader.next();
  return instruction.error().where + ": " + instruction.error().message;
}

TEST(PickleReaderTest, IntegersHaveSixForms) {
  for (const auto& [bytes, value] : {std::pair{"K\xff"s, 255LL},
                                     {"M\x01\x02"s, 513LL},
                                     {"J\xfe\xff\xff\xff"s, -2LL},
                                     {"\x8a\x00"s, 0LL},
                                     {"\x8a\x02\x00\x80"s, -32768LL},
                                     {"\x8a\x03\xff\xff\x00"s, 65535LL},
                                     {"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s, INT64_MAX}}) {
    const PickleInstruction it = first_of(bytes);
    EXPECT_EQ(it.code, PickleCode::kInteger);
    EXPECT_EQ(it.integer, value) << value;
  }
}

TEST(PickleReaderTest, RealsAreBigEndianAndTextsHaveALength) {
  EXPECT_EQ(first_of("G\x3f\xf8\x00\x00\x00\x00\x00\x00"sv).real, 1.5);
  EXPECT_EQ(first_of("\x8c\x02hiX"sv).text, "hi");
  EXPECT_EQ(first_of("X\x02\x00\x00\x00hi"sv).text, "hi");
  const PickleInstruction name = first_of("ccollections\nOrderedDict\n"sv);
  EXPECT_EQ(name.module, "collections");
  EXPECT_EQ(name.text, "OrderedDict");
}

TEST(PickleReaderTest, OpcodesThatDifferInTheirOperandAreOneInstruction) {
  EXPECT_EQ(first_of("q\x07"s).integer, 7);
  EXPECT_EQ(first_of("r\x07\x00\x00\x01"s).integer, 0x01000007);
  EXPECT_EQ(first_of("r\x07\x00\x00\x01"s).code, PickleCode::kNote);
  EXPECT_EQ(first_of("\x87"s).code, PickleCode::kTupleOf);
  EXPECT_EQ(first_of("\x87"s).integer, 3);
  EXPECT_EQ(first_of("\x89"s).integer, 0);
  EXPECT_EQ(first_of("i"s).code, PickleCode::kUnknown);
}

TEST(PickleReaderTest, ProtocolsAndFramesAreSkipped) {
  PickleReader reader("\x80\x04\x95\x01\x00\x00\x00\x00\x00\x00\x00."sv);
  EXPECT_EQ(reader.next().value().code, PickleCode::kNothing);
  EXPECT_EQ(reader.next().value().code, PickleCode::kNothing);
  EXPECT_EQ(reader.next().value().code, PickleCode::kStop);
  EXPECT_EQ(reader.where(), "byte 11");
}

TEST(PickleReaderTest, AnEndTooEarlyNamesTheInstruction) {
  for (const std::string& bytes :
       {"N"s, "NK"s, "NX\x05\x00\x00\x00hi"s, "Ncmodule\n"s, "NG\x00"s}) {
    EXPECT_EQ(trouble_of(bytes), "byte 1: the pickle ends too early") << bytes;
  }
  EXPECT_EQ(trouble_of("\x8a\x09"s + std::string(9, 'x')), "byte 0: a number of more than 64 bits");
}

}  // namespace
}  // namespace lockstep::detail
