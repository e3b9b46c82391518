// What a process sends is read, however it ends.
#include "lockstep/sim/process/rank_process.h"

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

// An end that leaves something unread is reported as an error, once, before what it has sent.
TEST(RankProcessTest, AMessageIsReadThoughItsSenderClosedWithRepliesUnread) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  RankProcess process({.socket = ends[0]});
  ASSERT_TRUE(process.send({.kind = ReplyKind::kAskStack}));
  for (const std::string& packet :
       packets_of(Request{.kind = RequestKind::kEnd, .body = encode(EndRequest{})})) {
    ASSERT_GT(::send(ends[1], packet.data(), packet.size(), MSG_NOSIGNAL), 0);
  }
  ::close(ends[1]);
  process.read();
  EXPECT_TRUE(process.has_request());
  EXPECT_TRUE(process.gone());
}

}  // namespace
}  // namespace lockstep::sim
