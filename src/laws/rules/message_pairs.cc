#include "lockstep/laws/rules/detail/calls/message_pairs.h"

#include <string>
#include <utility>

#include "lockstep/laws/detail/signature_field.h"

namespace lockstep::laws {

namespace {

SignatureField difference(const Signature& sent, const Signature& received) {
  if (sent.dtype != received.dtype) return SignatureField::kDtype;
  return sent.count != received.count ? SignatureField::kCount : SignatureField::kNone;
}

}  // namespace

void MessagePairs::on_message(const Event& event, const CollectiveEvent& call) {
  if (call.group != 0) return;
  const bool sends = call.signature.op == CollectiveOp::kSend;
  const std::int32_t self = to_int(event.rank);
  const std::int32_t peer = call.signature.peer;
  const std::int32_t source = sends ? self : peer;
  const std::int32_t target = sends ? peer : self;
  const auto [other, is_first] = open_.try_emplace(
      Key{event.at.attempt, source, target, call.signature.tag, call.seq}, call.signature);
  if (is_first || other->second.op == call.signature.op) return;
  ++n_pairs_;
  const Signature& sent = sends ? call.signature : other->second;
  const Signature& received = sends ? other->second : call.signature;
  const SignatureField field = difference(sent, received);
  if (field != SignatureField::kNone) {
    Finding finding;
    finding.attempt = event.at.attempt;
    finding.event = "collective";
    finding.seq = call.seq;
    if (event.at.opt >= 0) finding.step = event.at.opt;
    finding.field = name_of(field);
    finding.ranks = {Rank{target}};
    finding.site = received.site.text();
    finding.other_site = sent.site.text();
    finding.message = "mismatched message: rank " + std::to_string(source) + " called " +
                      signature_text(sent) + " where rank " + std::to_string(target) + " called " +
                      signature_text(received);
    findings_.push_back(std::move(finding));
  }
  open_.erase(other);
}

}  // namespace lockstep::laws
