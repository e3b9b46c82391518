// What rank r put into the all-reduces that were recorded from PyTorch 1.13 on gloo.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::testing {

/// Bits of uniform_(-1, 1) in f32 after manual_seed(100 + r), by rank r. The results recorded for
/// them stand in the tests that compare.
inline const std::vector<std::vector<std::uint32_t>> kRecordedInputs = {{0xbf46d3f0,
                                                                         0x3f21b630,
                                                                         0xbef322f4,
                                                                         0xbd041320,
                                                                         0x3eb4bd5c,
                                                                         0x3f02009e,
                                                                         0xbef30140,
                                                                         0xbf6a10ec,
                                                                         0xbf157d44,
                                                                         0xbf439098},
                                                                        {0xbf1a9942,
                                                                         0xbdcb9f50,
                                                                         0xbf51755e,
                                                                         0x3f463e8c,
                                                                         0xbed7a704,
                                                                         0xbf767b52,
                                                                         0x3f51affa,
                                                                         0xbea33ed4,
                                                                         0xbe0d8088,
                                                                         0x3eedf624},
                                                                        {0xbf7cae00,
                                                                         0x3f0ca5e6,
                                                                         0xbf650b64,
                                                                         0xbe17b870,
                                                                         0x3e6dd390,
                                                                         0xbe326488,
                                                                         0xbf5c697c,
                                                                         0xbebbc054,
                                                                         0xbf2f786e,
                                                                         0xbf476870},
                                                                        {0x3e76b838,
                                                                         0xbeb00edc,
                                                                         0x3e4af898,
                                                                         0xbf0d454a,
                                                                         0x3f05ee72,
                                                                         0x3f17e98c,
                                                                         0x3f3f69e2,
                                                                         0xbf2b81c8,
                                                                         0xbebc93ac,
                                                                         0xbf3e1028}};

}  // namespace lockstep::testing
