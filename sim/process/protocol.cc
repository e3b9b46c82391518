#include "lockstep/sim/process/protocol.h"

#include <array>
#include <utility>

#include "lockstep/sim/process/detail/packing.h"

namespace lockstep::sim {

namespace {

constexpr int kOps = static_cast<int>(CollectiveOp::kRecv) + 1;
constexpr int kDTypes = static_cast<int>(DType::kBool) + 1;
constexpr int kReduceOps = static_cast<int>(ReduceOp::kBxor) + 1;
constexpr int kPointKinds = static_cast<int>(PointKind::kDecision) + 1;
constexpr std::size_t kSliceBytes = 16;

Error misshapen(std::string_view what) {
  return {"the body of " + std::string(what) + " is cut off, has a rest or an unknown number", {}};
}

template <typename T>
Result<T> checked(const Unpacker& body, T value, std::string_view what) {
  if (!body.complete()) return misshapen(what);
  return value;
}

void add_slices(Packer& body, const std::vector<ArenaSlice>& slices) {
  for (const ArenaSlice& slice : slices) body.add(slice.offset).add(slice.count);
}

std::vector<ArenaSlice> get_slices(Unpacker& body, std::uint32_t n) {
  std::vector<ArenaSlice> slices;
  if (!body.has(n, kSliceBytes)) return slices;
  for (std::uint32_t i = 0; i < n; ++i) {
    ArenaSlice slice;
    slice.offset = body.get<std::uint64_t>();
    slice.count = body.get<std::int64_t>();
    slices.push_back(slice);
  }
  return slices;
}

template <typename T>
std::vector<T> get_numbers(Unpacker& body, std::uint32_t n) {
  std::vector<T> numbers;
  if (!body.has(n, sizeof(T))) return numbers;
  for (std::uint32_t i = 0; i < n; ++i) numbers.push_back(body.get<T>());
  return numbers;
}

}  // namespace

bool expects_reply(const Request& request) {
  switch (request.kind) {
    case RequestKind::kWait:
    case RequestKind::kTest:
    case RequestKind::kOpenGroup:
    case RequestKind::kStore:
    case RequestKind::kSleep:
    case RequestKind::kPoint:
      return true;
    case RequestKind::kPost:
      return request.has(RequestFlag::kWaits);
    case RequestKind::kName:
    case RequestKind::kCloseGroup:
    case RequestKind::kEnd:
    case RequestKind::kStack:
    case RequestKind::kLog:
    case RequestKind::kForget:
      return false;
  }
  return false;
}

std::string encode(const PostRequest& request) {
  Packer body;
  body.add(request.group)
      .add(static_cast<std::uint8_t>(request.op))
      .add(static_cast<std::uint8_t>(request.dtype))
      .add(static_cast<std::uint8_t>(request.reduce))
      .add(request.flags)
      .add(request.root_or_peer)
      .add(request.tag)
      .add(request.premul)
      .add(request.timeout_ns)
      .add(request.layout)
      .add(request.file)
      .add(request.line)
      .add(request.scope)
      .add(static_cast<std::uint32_t>(request.inputs.size()))
      .add(static_cast<std::uint32_t>(request.outputs.size()))
      .add(static_cast<std::uint32_t>(request.input_splits.size()))
      .add(static_cast<std::uint32_t>(request.output_splits.size()));
  add_slices(body, request.inputs);
  add_slices(body, request.outputs);
  for (const std::int64_t n : request.input_splits) body.add(n);
  for (const std::int64_t n : request.output_splits) body.add(n);
  return body.take();
}

Result<PostRequest> decode_post(std::string_view bytes) {
  Unpacker body(bytes);
  PostRequest request;
  request.group = body.get<std::int32_t>();
  request.op = body.choice<CollectiveOp>(kOps);
  request.dtype = body.choice<DType>(kDTypes);
  request.reduce = body.choice<ReduceOp>(kReduceOps);
  request.flags = body.get<std::uint8_t>();
  request.root_or_peer = body.get<std::int32_t>();
  request.tag = body.get<std::int32_t>();
  request.premul = body.get<double>();
  request.timeout_ns = body.get<std::int64_t>();
  request.layout = body.get<std::uint64_t>();
  request.file = body.get<std::uint32_t>();
  request.line = body.get<std::int32_t>();
  request.scope = body.get<std::uint32_t>();
  const auto n_inputs = body.get<std::uint32_t>();
  const auto n_outputs = body.get<std::uint32_t>();
  const auto n_input_splits = body.get<std::uint32_t>();
  const auto n_output_splits = body.get<std::uint32_t>();
  if (n_inputs > kMaxBuffers || n_outputs > kMaxBuffers) return misshapen("POST");
  request.inputs = get_slices(body, n_inputs);
  request.outputs = get_slices(body, n_outputs);
  request.input_splits = get_numbers<std::int64_t>(body, n_input_splits);
  request.output_splits = get_numbers<std::int64_t>(body, n_output_splits);
  return checked(body, std::move(request), "POST");
}

std::string encode(const GroupRequest& request) {
  Packer body;
  body.add(request.name).add(static_cast<std::uint32_t>(request.members.size()));
  for (const std::int32_t member : request.members) body.add(member);
  return body.add(request.file).add(request.line).take();
}

Result<GroupRequest> decode_group(std::string_view bytes) {
  Unpacker body(bytes);
  GroupRequest request;
  request.name = body.get<std::uint32_t>();
  request.members = get_numbers<std::int32_t>(body, body.get<std::uint32_t>());
  request.file = body.get<std::uint32_t>();
  request.line = body.get<std::int32_t>();
  return checked(body, std::move(request), "OPEN_GROUP");
}

std::string encode(const StoreRequest& request) {
  Packer body;
  body.add(static_cast<std::uint8_t>(request.op))
      .add(request.timeout_ns)
      .add(static_cast<std::uint32_t>(request.key.size()))
      .add(static_cast<std::uint32_t>(request.value.size()))
      .add(static_cast<std::uint32_t>(request.expected.size()))
      .add(request.file)
      .add(request.line);
  return body.text(request.key).text(request.value).text(request.expected).take();
}

Result<StoreRequest> decode_store(std::string_view bytes) {
  Unpacker body(bytes);
  StoreRequest request;
  request.op = body.choice<StoreOp>(kStoreOps);
  request.timeout_ns = body.get<std::int64_t>();
  const auto n_key = body.get<std::uint32_t>();
  const auto n_value = body.get<std::uint32_t>();
  const auto n_expected = body.get<std::uint32_t>();
  request.file = body.get<std::uint32_t>();
  request.line = body.get<std::int32_t>();
  request.key = body.text(n_key);
  request.value = body.text(n_value);
  request.expected = body.text(n_expected);
  return checked(body, std::move(request), "STORE");
}

std::string encode(const EndRequest& request) {
  return Packer().add(request.exit_code).text(request.text).take();
}

Result<EndRequest> decode_end(std::string_view bytes) {
  Unpacker body(bytes);
  EndRequest request;
  request.exit_code = body.get<std::int32_t>();
  request.text = body.rest();
  return checked(body, std::move(request), "END");
}

std::string encode(const NameRequest& request) {
  return Packer().add(request.id).text(request.text).take();
}

Result<NameRequest> decode_name(std::string_view bytes) {
  Unpacker body(bytes);
  NameRequest request;
  request.id = body.get<std::uint32_t>();
  request.text = body.rest();
  return checked(body, std::move(request), "NAME");
}

std::string encode(const PointRequest& request) {
  return Packer()
      .add(static_cast<std::uint8_t>(request.point.kind))
      .add(request.point.object)
      .take();
}

Result<PointRequest> decode_point(std::string_view bytes) {
  Unpacker body(bytes);
  PointRequest request;
  request.point.kind = body.choice<PointKind>(kPointKinds);
  request.point.object = body.get<std::uint64_t>();
  return checked(body, request, "POINT");
}

std::string encode_i32(std::int32_t value) { return Packer().add(value).take(); }

std::string encode_i64(std::int64_t value) { return Packer().add(value).take(); }

Result<std::int32_t> decode_i32(std::string_view bytes) {
  Unpacker body(bytes);
  const auto value = body.get<std::int32_t>();
  return checked(body, value, "a request with one number");
}

Result<std::int64_t> decode_i64(std::string_view bytes) {
  Unpacker body(bytes);
  const auto value = body.get<std::int64_t>();
  return checked(body, value, "a request with one number");
}

}  // namespace lockstep::sim
