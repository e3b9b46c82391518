// Digests and sketches as a CUDA device computes them, over a driver whose device is the host.
#include "lockstep/gpu/fingerprint/device_fingerprints.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/half.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::fingerprint {
namespace {

constexpr const char* kEmulated = EMULATED_DRIVER_FILE;

DeviceFingerprints opened() {
  Result<DeviceFingerprints> prints = DeviceFingerprints::open(kEmulated);
  EXPECT_TRUE(prints.ok());
  return std::move(prints).value();
}

/// Makes one call of the emulated driver fail, as long as it lives.
class Failing {
 public:
  explicit Failing(const char* call) { ::setenv("EMULATED_DRIVER", call, 1); }

  ~Failing() { ::unsetenv("EMULATED_DRIVER"); }

  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
  Failing(Failing&&) = delete;
  Failing& operator=(Failing&&) = delete;
};

std::vector<std::byte> random_bytes(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

std::vector<float> random_floats(std::int64_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> draw;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = draw(random);
  return values;
}

constexpr std::int64_t kSizes[] = {
    0, 1, 7, 128, 129, kPerChunk - 1, kPerChunk, kPerChunk + 1, 3 * kPerChunk + 77};

constexpr std::size_t kMostBytes = (3 * kPerChunk + 77) * 8;

/// Any order of adding n terms is within n roundings of their magnitudes (Higham 2002, 4.2); two orders are
/// within twice that of each other.
double bound(const Sketch& of, std::int64_t n) {
  return 2.0 * static_cast<double>(n) * 0x1p-53 * of.l1;
}

void expect_alike(const TensorFingerprint& device, const TensorFingerprint& host, std::int64_t n) {
  EXPECT_EQ(device.digest, host.digest) << n << " elements";
  EXPECT_NEAR(device.sketch.l1, host.sketch.l1, bound(host.sketch, n)) << n << " elements";
  for (std::size_t j = 0; j < host.sketch.sums.size(); ++j) {
    EXPECT_NEAR(device.sketch.sums[j], host.sketch.sums[j], bound(host.sketch, n))
        << n << " elements";
  }
}

void expect_digests_of_the_host(DeviceFingerprints& prints, std::byte* memory) {
  for (const DType dtype : {DType::kF32,
                            DType::kF64,
                            DType::kF16,
                            DType::kBF16,
                            DType::kI8,
                            DType::kU8,
                            DType::kI32,
                            DType::kI64,
                            DType::kBool}) {
    for (const std::int64_t n : kSizes) {
      const std::vector<std::byte> bytes =
          random_bytes(n * size_of(dtype), static_cast<unsigned>(n));
      std::ranges::copy(bytes, memory);
      const auto ticket = prints.ask({memory, n, dtype, false}, {});
      prints.launch();
      EXPECT_EQ(prints.read(ticket).digest, sm64(bytes.data(), n, dtype))
          << name_of(dtype) << ", " << n;
    }
  }
}

void expect_sketches_of_the_host(DeviceFingerprints& prints, std::byte* memory) {
  for (const std::int64_t n : kSizes) {
    const std::vector<float> values = random_floats(n);
    const std::vector<double> wide(values.begin(), values.end());
    std::vector<std::uint16_t> halves;
    std::vector<std::uint16_t> brain;
    for (const float value : values) {
      halves.push_back(to_f16(value));
      brain.push_back(to_bf16(value));
    }
    const std::pair<const void*, DType> kinds[] = {{values.data(), DType::kF32},
                                                   {wide.data(), DType::kF64},
                                                   {halves.data(), DType::kF16},
                                                   {brain.data(), DType::kBF16}};
    for (const auto& [data, dtype] : kinds) {
      std::copy_n(static_cast<const std::byte*>(data), n * size_of(dtype), memory);
      const auto ticket = prints.ask({memory, n, dtype, true}, {});
      prints.launch();
      expect_alike(prints.read(ticket), fingerprint_of(data, n, dtype), n);
    }
  }
}

// First: once the emulated driver is loaded, it is what the name finds.
TEST(DeviceFingerprintsTest, TheDeviceGivesTheFingerprintsOfTheHost) {
  Result<DeviceFingerprints> prints = DeviceFingerprints::open();
  if (!prints.ok()) GTEST_SKIP() << "not run on a GPU: " << prints.error().text();
  ASSERT_TRUE(prints.value().ready(0).ok()) << prints.value().ready(0).error().text();
  // Memory that both can touch; the context is current from here on.
  const Driver driver = Driver::open().value();
  void* context = nullptr;
  void* memory = nullptr;
  ASSERT_EQ(driver.retain_context(&context, 0), 0);
  ASSERT_EQ(driver.push_context(context), 0);
  ASSERT_EQ(driver.allocate_host(&memory, kMostBytes, 3), 0);
  expect_digests_of_the_host(prints.value(), static_cast<std::byte*>(memory));
  expect_sketches_of_the_host(prints.value(), static_cast<std::byte*>(memory));
  EXPECT_EQ(driver.free_host(memory), 0);
}

TEST(DeviceFingerprintsTest, DigestsOfEveryTypeAreThoseOfTheHost) {
  DeviceFingerprints prints = opened();
  std::vector<std::byte> memory(kMostBytes);
  expect_digests_of_the_host(prints, memory.data());
}

TEST(DeviceFingerprintsTest, SketchesAreThoseOfTheHostUpToTheOrderOfAdding) {
  DeviceFingerprints prints = opened();
  std::vector<std::byte> memory(kMostBytes);
  expect_sketches_of_the_host(prints, memory.data());
}

TEST(DeviceFingerprintsTest, NoSketchIsTakenThatNothingAskedFor) {
  DeviceFingerprints prints = opened();
  const std::vector<float> values = random_floats(100);
  const auto ticket = prints.ask({values.data(), 100, DType::kF32, false}, {});
  prints.launch();
  EXPECT_EQ(prints.read(ticket).sketch, Sketch{});
  EXPECT_THROW(prints.ask({values.data(), 100, DType::kI32, true}, {}), ContractViolation);
}

TEST(DeviceFingerprintsTest, AnswersOfManyTensorsAreEachTheirOwn) {
  DeviceFingerprints prints = opened();
  std::vector<std::vector<float>> tensors;
  for (std::int64_t i = 0; i < 3 * static_cast<std::int64_t>(Batch::kMost) + 5; ++i) {
    tensors.push_back(random_floats(i * 97 % (2 * kPerChunk)));
  }
  for (int round = 0; round < 2; ++round) {  // The second one in memory that is used again.
    std::vector<DeviceFingerprints::Ticket> tickets;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto n = static_cast<std::int64_t>(tensors[i].size());
      // Now and then another stream: its answers come from another launch.
      void* const stream = i % 50 < 25 ? nullptr : &tensors;
      tickets.push_back(prints.ask({tensors[i].data(), n, DType::kF32, true}, {0, stream}));
    }
    prints.launch();
    for (std::size_t i = tensors.size(); i-- > 0;) {
      const auto n = static_cast<std::int64_t>(tensors[i].size());
      expect_alike(prints.read(tickets[i]), fingerprint_of(tensors[i].data(), n, DType::kF32), n);
    }
    prints.forget();
  }
}

TEST(DeviceFingerprintsTest, ATensorOfMoreChunksThanASlabHasOneOfItsOwn) {
  DeviceFingerprints prints = opened();
  const std::int64_t n = kPerChunk * 8192 + 12345;
  const std::vector<std::byte> bytes = random_bytes(4096, 1);
  std::vector<std::byte> large(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < large.size(); i += 4099) large[i] = bytes[i % 4096];
  const auto small = prints.ask({bytes.data(), 4096, DType::kU8, false}, {});
  const auto ticket = prints.ask({large.data(), n, DType::kU8, false}, {});
  prints.launch();
  EXPECT_EQ(prints.read(ticket).digest, sm64(large.data(), n, DType::kU8));
  EXPECT_EQ(prints.read(small).digest, sm64(bytes.data(), 4096, DType::kU8));
}

TEST(DeviceFingerprintsTest, AskingTwiceReadsTwice) {
  DeviceFingerprints prints = opened();
  std::vector<float> values = random_floats(300);
  const std::uint64_t before = sm64(values.data(), 300, DType::kF32);
  const auto first = prints.ask({values.data(), 300, DType::kF32, false}, {});
  prints.launch();
  EXPECT_EQ(prints.read(first).digest, before);
  values[17] += 1.0F;
  const auto second = prints.ask({values.data(), 300, DType::kF32, false}, {});
  prints.launch();
  EXPECT_EQ(prints.read(second).digest, sm64(values.data(), 300, DType::kF32));
  EXPECT_EQ(prints.read(first).digest, before);
}

TEST(DeviceFingerprintsTest, WhatWasNotLaunchedCannotBeRead) {
  DeviceFingerprints prints = opened();
  const std::vector<float> values = random_floats(3);
  const auto ticket = prints.ask({values.data(), 3, DType::kF32, false}, {});
  EXPECT_THROW(prints.read(ticket), ContractViolation);
  prints.launch();
  EXPECT_NO_THROW(prints.read(ticket));
  prints.forget();
  EXPECT_THROW(prints.read(ticket), ContractViolation);
}

TEST(DeviceFingerprintsTest, WithoutADriverADeviceOrACallOfItsTheReasonIsGiven) {
  EXPECT_EQ(DeviceFingerprints::open("libno-such-driver.so.1").error().message,
            "this process finds no CUDA driver (libno-such-driver.so.1)");
  EXPECT_EQ(DeviceFingerprints::open("libm.so.6").error().message, "libm.so.6 has no cuInit");
  for (const char* const call : {"init", "device"}) {
    const Failing failing(call);
    EXPECT_EQ(DeviceFingerprints::open(kEmulated).error().message,
              "the CUDA driver finds no device");
  }
}

/// What the driver's failing comes to.
std::string said_where(const char* call) {
  DeviceFingerprints prints = opened();
  const Failing failing(call);
  const std::vector<float> values = random_floats(3);
  try {
    const auto ticket = prints.ask({values.data(), 3, DType::kF32, false}, {});
    prints.launch();
    (void)prints.read(ticket);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(DeviceFingerprintsTest, AFailingCallIsNamedInTheDriversWords) {
  EXPECT_EQ(said_where("none"), "nothing");
  EXPECT_EQ(said_where("module"), "the CUDA driver failed in cuModuleLoadData: error 999");
  EXPECT_EQ(said_where("memory"), "the CUDA driver failed in cuMemHostAlloc: error 999");
  EXPECT_EQ(said_where("launch"), "the CUDA driver failed in cuLaunchKernel: error 999");
  EXPECT_EQ(
      said_where("wait"),
      "the CUDA driver failed in cuStreamSynchronize: an illegal memory access was encountered");
}

TEST(DeviceFingerprintsTest, WhatWasWaitedForIsThereToBeRead) {
  DeviceFingerprints prints = opened();
  const std::vector<float> values = random_floats(300);
  const auto ticket = prints.ask({values.data(), 300, DType::kF32, false}, {});
  EXPECT_TRUE(prints.running().empty());
  prints.launch();
  const std::vector<DeviceFingerprints::Stream> running = prints.running();
  ASSERT_EQ(running.size(), 1U);
  running[0].wait();
  EXPECT_EQ(prints.read(ticket).digest, sm64(values.data(), 300, DType::kF32));
  EXPECT_TRUE(prints.running().empty());
}

TEST(DeviceFingerprintsTest, WhatAFailedLaunchWasToAnswerIsNeverRead) {
  DeviceFingerprints prints = opened();
  const std::vector<float> values = random_floats(300);
  const auto ticket = prints.ask({values.data(), 300, DType::kF32, false}, {});
  {
    const Failing failing("launch");
    EXPECT_THROW(prints.launch(), std::runtime_error);
  }
  EXPECT_THROW(prints.read(ticket), ContractViolation);
  const auto next = prints.ask({values.data(), 300, DType::kF32, false}, {});
  prints.launch();
  EXPECT_EQ(prints.read(next).digest, sm64(values.data(), 300, DType::kF32));
}

TEST(DeviceFingerprintsTest, AStreamThatIsCapturedSaysSo) {
  DeviceFingerprints prints = opened();
  EXPECT_FALSE(prints.is_capturing({}));
  for (const char* const how : {"capturing", "implicit"}) {
    const Failing failing(how);
    EXPECT_TRUE(prints.is_capturing({})) << how;
  }
}

TEST(DeviceFingerprintsTest, ADeviceThatIsNotThereIsRefused) {
  DeviceFingerprints prints = opened();
  const std::vector<float> values = random_floats(3);
  prints.ask({values.data(), 3, DType::kF32, false}, {.device = 7});
  EXPECT_THROW(prints.launch(), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::fingerprint
