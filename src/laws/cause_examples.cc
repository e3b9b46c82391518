#include "lockstep/laws/cause_examples.h"

#include "lockstep/base/check.h"
#include "lockstep/laws/examples/parts.h"

namespace lockstep {

const CauseExample& example_of(Cause cause) {
  for (const auto part : {laws::call_examples(),
                          laws::data_examples(),
                          laws::gradient_examples(),
                          laws::state_examples()}) {
    for (const CauseExample& example : part) {
      if (example.cause == cause) return example;
    }
  }
  LOCKSTEP_CHECK(false, "no example of this cause: " + std::string(id_of(cause)));
}

}  // namespace lockstep
