// What can be said of evaluations whose metrics no event reports.
#pragma once

#include <vector>

#include "lockstep/laws/rules/detail/samples/apart_evaluations.h"
#include "lockstep/laws/rules/detail/samples/padded_evaluations.h"

namespace lockstep::laws {

/// Hands events on to what gives advice: whose results stay apart, and whose samplers repeat samples.
class Evaluations {
 public:
  /// `more_follows`: the job still runs, and a call may yet bring together what ranks found.
  explicit Evaluations(bool more_follows) : more_follows_(more_follows) {}

  /// Events of other kinds are left alone.
  void on_event(const Event& event, const NameTable& names);
  void on_call(const CollectiveEvent& call, RankRange who);

  std::vector<Advice> advice(const NameTable& names) const;

 private:
  bool more_follows_;
  PaddedEvaluations padded_;
  ApartEvaluations apart_;
};

}  // namespace lockstep::laws
