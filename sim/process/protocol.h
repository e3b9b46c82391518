// What a rank's process and the coordinator say to each other: one message, both directions.
//
// Over a socket of kind SOCK_SEQPACKET, little-endian and packed, without padding:
//
//   to the coordinator    u16 kind, u16 flags,  u32 ticket, body
//   to the process        u16 kind, u16 status, u32 ticket, i64 now_ns, body
//
// Kinds, bodies and replies stand with the enums below. A message longer than kMaxPacket travels as
// several packets, each with the header; all but the last have kMore set in flags or status.
//
// The first request of a process is POINT, before it runs a line of its program: one that is not
// answered yet has not started, which is what lets a strategy decide who begins. Between a request
// that is answered and its answer the process computes nothing; what it sends without waiting (NAME,
// POST, CLOSE_GROUP, FORGET, LOG) is carried out before its next request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/comm_status.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::sim {

inline constexpr std::size_t kMaxPacket = std::size_t{128} * 1024;  ///< With the header.
inline constexpr std::size_t kMaxMessage = std::size_t{64} << 20U;  ///< All packets' bodies.

enum class RequestKind : std::uint16_t {
  kName = 1,   ///< u32 id (below kMaxNames), utf-8 text. No reply. Defined once, before it is used.
  kPost,       ///< PostRequest. No reply, unless kWaits: DONE.
  kWait,       ///< Nothing: the header's ticket. DONE once the call is over; it is forgotten then.
  kTest,       ///< Nothing: the header's ticket. VALUE u8: 1 = over. A scheduling point.
  kOpenGroup,  ///< GroupRequest. VALUE i32: a handle of this process, for PostRequest::group.
  kCloseGroup,  ///< i32 handle. No reply.
  kStore,       ///< StoreRequest. VALUE: see StoreOp.
  kSleep,       ///< i64 ns. VALUE, empty, once so much virtual time has passed.
  kPoint,       ///< u8 PointKind, u64 object. VALUE, empty. A scheduling point.
  kEnd,         ///< i32 exit code, text of the exception or nothing. No reply: the last request.
  kStack,       ///< Text: answers ASK_STACK. No reply.
  kLog,         ///< Text. No reply.
  kForget,  ///< Nothing: the header's ticket will not be waited for. No reply; the call goes on.
};

/// Bits of a request's flags.
enum class RequestFlag : std::uint16_t {
  kWaits = 1,       ///< POST: as if WAIT followed.
  kExpires = 2,     ///< POST, STORE: its timeout passes in virtual time whatever the options say.
  kMore = 0x8000U,  ///< Another packet of this message follows.
};

enum class ReplyKind : std::uint16_t {
  kDone =
      1,   ///< Status: a CommStatus or CallProblem; i32 peer (group rank of a recv's sender, else
           ///< -1), text of what went wrong.
  kValue,  ///< Status: ValueStatus; the value if it is kOk, else a text.
  kAskStack,  ///< Nothing, ticket 0. May come whenever the process waits for a reply: it answers with
              ///< STACK and goes on waiting.
  kStop,      ///< Text, ticket 0: the rank must end now. The last message to it.
};
inline constexpr std::uint16_t kMoreReply = 0x8000U;  ///< Bit of a reply's status, as kMore.

/// Statuses of DONE in addition to CommStatus.
enum class CallProblem : std::uint16_t {
  kContract = 100,  ///< The call breaks its contract: the text says how.
  kInjected,        ///< A planned fault: the rank's code throws here.
};

enum class ValueStatus : std::uint16_t {
  kOk,
  kTimedOut,
  kContract,  ///< The request is wrong: the text says how.
  kInjected,  ///< A planned fault: the rank's code throws here.
};

/// What a store is asked. Integers are kept as decimal text, as c10d's stores keep them.
enum class StoreOp : std::uint8_t {
  kSet,         ///< VALUE, empty.
  kGet,         ///< VALUE bytes. Waits for the key.
  kWait,        ///< VALUE, empty. Waits for all keys: key = keys joined by one zero byte each.
  kAdd,         ///< Value: decimal text. VALUE i64: the sum. A key that is missing counts as 0.
  kCompareSet,  ///< VALUE bytes: what is there afterwards. A key that is missing is set only where
                ///< nothing is expected; then `expected` is answered, as c10d does.
  kCheck,       ///< VALUE u8: all keys are there. Keys as for kWait.
  kDelete,      ///< VALUE u8: it was there.
  kNumKeys,     ///< VALUE i64.
  kAppend,      ///< VALUE, empty. A key that is missing counts as empty.
};
inline constexpr std::uint8_t kStoreOps = 9;

/// Bits of PostRequest::flags.
enum class PostFlag : std::uint8_t {
  kAsync = 1,      ///< Evidence: the program does not wait at once.
  kCoalesced = 2,  ///< all_reduce: of several buffers, as one call.
  kAnySource = 4,  ///< recv: from any rank; root_or_peer is ignored.
  kTensor = 8,     ///< all_gather, reduce_scatter, all_to_all: one buffer holds all ranks' parts.
};

inline constexpr std::uint32_t kMaxNames = 1U << 20U;
inline constexpr std::uint32_t kMaxBuffers = 1U << 16U;
inline constexpr std::uint32_t kNoName = 0xFFFFFFFFU;  ///< Where a name id may be missing.

/// Elements in the rank's arena, from `offset` bytes after its begin on.
struct ArenaSlice {
  std::uint64_t offset = 0;
  std::int64_t count = 0;

  friend bool operator==(const ArenaSlice&, const ArenaSlice&) = default;
};

/// A call of a group:
///
///   i32 group, u8 op, u8 dtype, u8 reduce, u8 flags, i32 root_or_peer, i32 tag, f64 premul,
///   i64 timeout_ns, u64 layout, u32 file, i32 line, u32 scope,
///   u32 n_inputs, u32 n_outputs, u32 n_input_splits, u32 n_output_splits,
///   per buffer, inputs first: u64 offset, i64 count; then the splits, inputs' first: i64 each
///
/// Buffers are those of ProcessGroup's function of that name. What works in place (all_reduce,
/// broadcast, reduce) names its buffers as inputs and, the same, as outputs; a send has an input, a
/// recv an output, a barrier none.
struct PostRequest {
  std::int32_t group = 0;  ///< A handle from OPEN_GROUP.
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  std::uint8_t flags = 0;          ///< PostFlag
  std::int32_t root_or_peer = -1;  ///< Group rank.
  std::int32_t tag = 0;
  double premul = 1.0;
  std::int64_t timeout_ns = 0;  ///< 0: none.
  std::uint64_t layout = 0;     ///< Digest of what the elements mean, 0 = raw.
  std::uint32_t file = kNoName;
  std::int32_t line = 0;
  std::uint32_t scope = kNoName;
  std::vector<ArenaSlice> inputs{};
  std::vector<ArenaSlice> outputs{};
  std::vector<std::int64_t> input_splits{};  ///< all_to_all with kTensor; empty: even.
  std::vector<std::int64_t> output_splits{};

  bool has(PostFlag flag) const { return (flags & static_cast<std::uint8_t>(flag)) != 0; }

  friend bool operator==(const PostRequest&, const PostRequest&) = default;
};

/// u32 name, u32 n, i32 member[n] (world ranks in the group's order), u32 file, i32 line. Each
/// member opens it; it does not wait for the others.
struct GroupRequest {
  std::uint32_t name = kNoName;
  std::vector<std::int32_t> members{};
  std::uint32_t file = kNoName;
  std::int32_t line = 0;

  friend bool operator==(const GroupRequest&, const GroupRequest&) = default;
};

/// u8 op, i64 timeout_ns, u32 key bytes, u32 value bytes, u32 expected bytes, u32 file, i32 line,
/// then the three texts.
struct StoreRequest {
  StoreOp op = StoreOp::kGet;
  std::int64_t timeout_ns = -1;  ///< -1: none.
  std::uint32_t file = kNoName;
  std::int32_t line = 0;
  std::string key{};
  std::string value{};
  std::string expected{};

  friend bool operator==(const StoreRequest&, const StoreRequest&) = default;
};

struct PointRequest {
  Point point{};
};

struct EndRequest {
  std::int32_t exit_code = 0;
  std::string text{};  ///< Of the exception, empty: none.

  friend bool operator==(const EndRequest&, const EndRequest&) = default;
};

struct NameRequest {
  std::uint32_t id = 0;
  std::string text{};

  friend bool operator==(const NameRequest&, const NameRequest&) = default;
};

/// A request as it came: the body is not looked at yet.
struct Request {
  RequestKind kind = RequestKind::kPoint;
  std::uint16_t flags = 0;
  std::uint32_t ticket = 0;
  std::string body{};

  bool has(RequestFlag flag) const { return (flags & static_cast<std::uint16_t>(flag)) != 0; }
};

struct Reply {
  ReplyKind kind = ReplyKind::kValue;
  std::uint16_t status = 0;
  std::uint32_t ticket = 0;
  VirtualTime now{};
  std::string body{};
};

/// Whether the process waits for a reply to it.
bool expects_reply(const Request& request);

// -- bodies. One that is cut off, has a rest or a number of no enumerator is an error.
std::string encode(const PostRequest& request);
std::string encode(const GroupRequest& request);
std::string encode(const StoreRequest& request);
std::string encode(const EndRequest& request);
std::string encode(const NameRequest& request);
std::string encode(const PointRequest& request);
std::string encode_i32(std::int32_t value);
std::string encode_i64(std::int64_t value);
Result<PostRequest> decode_post(std::string_view bytes);
Result<GroupRequest> decode_group(std::string_view bytes);
Result<StoreRequest> decode_store(std::string_view bytes);
Result<EndRequest> decode_end(std::string_view bytes);
Result<NameRequest> decode_name(std::string_view bytes);
Result<PointRequest> decode_point(std::string_view bytes);
Result<std::int32_t> decode_i32(std::string_view bytes);
Result<std::int64_t> decode_i64(std::string_view bytes);

// -- messages as packets, and back
std::vector<std::string> packets_of(const Request& request);
std::vector<std::string> packets_of(const Reply& reply);

/// Puts packets of one direction together.
class RequestAssembly {
 public:
  /// True: `request` is complete.
  /// Errors: no header, an unknown kind, too long, or another message in the middle of one.
  Result<bool> add(std::string_view packet, Request& request);

 private:
  Request partial_;
  bool inside_ = false;
};

class ReplyAssembly {
 public:
  Result<bool> add(std::string_view packet, Reply& reply);

 private:
  Reply partial_;
  bool inside_ = false;
};

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<14> kEnumNames<sim::RequestKind> = {"",
                                                               "NAME",
                                                               "POST",
                                                               "WAIT",
                                                               "TEST",
                                                               "OPEN_GROUP",
                                                               "CLOSE_GROUP",
                                                               "STORE",
                                                               "SLEEP",
                                                               "POINT",
                                                               "END",
                                                               "STACK",
                                                               "LOG",
                                                               "FORGET"};

template <>
inline constexpr EnumNames<9> kEnumNames<sim::StoreOp> = {
    "set", "get", "wait", "add", "compare_set", "check", "delete", "num_keys", "append"};

}  // namespace lockstep
