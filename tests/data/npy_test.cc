#include "lockstep/data/npy.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/data/fake_host.h"

namespace lockstep::data {
namespace {

std::string bytes_of(const std::string& name) {
  return SourceFiles().read("tests/golden/npy/" + name + ".npy").value();
}

NpyArray read(const std::string& name) { return parse_npy(bytes_of(name), name).value(); }

std::string npy_error(const std::string& bytes) {
  const Result<NpyArray> result = parse_npy(bytes, "a.npy");
  return result.ok() ? "" : result.error().text();
}

// A version 1.0 file around a header and a body.
std::string file_with(const std::string& header, const std::string& body) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         body;
}

TEST(NpyTest, ReadsWhatNumPyWrites) {
  const NpyArray floats = read("grid_f4");
  EXPECT_EQ(floats.type, "<f4");
  EXPECT_EQ(floats.rows, 2);
  EXPECT_EQ(floats.columns, 3);
  EXPECT_EQ(floats.values, (std::vector<double>{0.25, 0.5, 0.75, -1, 1.25, 1.5}));
  EXPECT_EQ(read("grid_f8_v2").values,
            (std::vector<double>{1 / 3., 2 / 3., 1, -4 / 3., 5 / 3., 2}));
  EXPECT_EQ(read("grid_i4").values, (std::vector<double>{1, 2, 3, -4, 5, 6}));
  EXPECT_EQ(read("vector_i8").values, (std::vector<double>{0, 1, 9007199254740992.0}));
  EXPECT_EQ(read("vector_u1").values, (std::vector<double>{0, 9}));
  EXPECT_EQ(read("vector_u1").columns, 1);
  EXPECT_EQ(read("empty_f8").rows, 0);
}

TEST(NpyTest, WhatIsNotReadIsNamed) {
  EXPECT_EQ(npy_error(bytes_of("fortran_f8")),
            "a.npy: Fortran order is not read; save a C-ordered array");
  EXPECT_EQ(npy_error(bytes_of("big_endian_f8")),
            "a.npy: type '>f8' is not read; save as <f4, <f8, <i4, <i8 or |u1");
  EXPECT_EQ(npy_error(bytes_of("cube_f4")), "a.npy: 3 dimensions are not read, only one or two");
  EXPECT_EQ(npy_error(bytes_of("scalar_f8")), "a.npy: 0 dimensions are not read, only one or two");
}

TEST(NpyTest, ValuesThatWouldNotSurviveAreRefusedWithTheirPlace) {
  EXPECT_EQ(npy_error(bytes_of("too_large_i8")), "a.npy:byte 136: an integer beyond 2^53");
  EXPECT_EQ(npy_error(bytes_of("not_finite_f4")), "a.npy:byte 132: a value is not finite");
}

TEST(NpyTest, DamagedFilesAreRefusedWithTheirPlace) {
  const std::string good = bytes_of("grid_f4");
  EXPECT_EQ(npy_error(""), "a.npy:byte 0: not a NumPy file");
  EXPECT_EQ(npy_error("1,2,3\n4,5,6\n"), "a.npy:byte 0: not a NumPy file");
  EXPECT_EQ(npy_error(good.substr(0, 7)), "a.npy:byte 7: the file ends before its version");
  EXPECT_EQ(npy_error(good.substr(0, 9)), "a.npy:byte 9: the file ends before its header");
  EXPECT_EQ(npy_error(good.substr(0, 50)), "a.npy:byte 50: the file ends within its header");
  EXPECT_EQ(npy_error(good.substr(0, 150)), "a.npy:byte 150: the file ends before its last value");
  EXPECT_EQ(npy_error(good + "x"), "a.npy:byte 152: bytes are left over after the last value");
  std::string version = good;
  version[6] = 3;
  EXPECT_EQ(npy_error(version), "a.npy:byte 6: only the format versions 1.0 and 2.0 are read");
}

TEST(NpyTest, MalformedHeadersAreRefused) {
  const std::string keys = "'descr': '|u1', 'fortran_order': False, ";
  EXPECT_EQ(npy_error(file_with("{" + keys + "'shape': (1,)}", "a")), "");
  for (const std::string& header : {std::string(),
                                    std::string("{"),
                                    std::string("{}"),
                                    "{" + keys + "}",
                                    "{" + keys + "'shape': (1,)",
                                    "{" + keys + "'shape': (x,)}",
                                    "{" + keys + "'shape': (-1,)}",
                                    "{" + keys + "'shape': (1,), 'shape': (1,)}",
                                    "{" + keys + "'shape': (1,)} x",
                                    "{" + keys + "'shape': (99999999999999999999,)}",
                                    "{" + keys + "'order': (1,)}"}) {
    EXPECT_NE(npy_error(file_with(header, "a")).find("the header is malformed here"),
              std::string::npos)
        << header;
  }
}

TEST(NpyTest, ShapesThatOverflowAreShortFiles) {
  const std::string header =
      "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}";
  EXPECT_NE(npy_error(file_with(header, "12345678")).find("ends before its last value"),
            std::string::npos);
}

MemoryFiles some_files() {
  return MemoryFiles({{"x.npy", bytes_of("grid_f4")},
                      {"y.npy", bytes_of("grid_i4")},
                      {"l.npy", bytes_of("vector_u1")},
                      {"three.npy", bytes_of("vector_i8")}});
}

TEST(NpyTest, FilesMakeADataSet) {
  MemoryFiles files = some_files();
  const Result<Dataset> labelled = load_npy(files, {.features = "x.npy", .labels = "l.npy"});
  ASSERT_TRUE(labelled.ok());
  EXPECT_EQ(labelled.value().size(), 2);
  EXPECT_EQ(labelled.value().label(1), 9);
  const Result<Dataset> real =
      load_npy(files, {.features = "x.npy", .targets = "y.npy", .tokens = "l.npy"});
  ASSERT_TRUE(real.ok());
  EXPECT_EQ(real.value().targets(1)[0], -4);
  EXPECT_EQ(real.value().tokens(1), 9);
}

TEST(NpyTest, FilesThatDoNotFitTogetherAreRefused) {
  MemoryFiles files = some_files();
  EXPECT_EQ(load_npy(files, {.features = "x.npy", .labels = "three.npy"}).error().text(),
            "x.npy: labels has 3 entries, which do not fit 2 samples");
  EXPECT_EQ(load_npy(files, {.features = "x.npy", .labels = "y.npy"}).error().text(),
            "y.npy: one number per sample is needed, not a row");
  EXPECT_EQ(load_npy(files, {.features = "gone.npy"}).error().text(), "gone.npy: no such file");
}

}  // namespace
}  // namespace lockstep::data
