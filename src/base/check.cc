#include "lockstep/base/check.h"

#include "lockstep/base/error.h"

namespace lockstep {

void fail_check(const char* condition, const char* file, int line, std::string_view message) {
  std::string text(file);
  text += ':';
  text += std::to_string(line);
  text += ": ";
  text += message;
  text += " (required: ";
  text += condition;
  text += ')';
  throw ContractViolation(text);
}

void rethrow_at(const CallSite& site, const ContractViolation& refused) {
  if (refused.says_where()) throw;
  throw ContractViolation(refused.what(), site);
}

void fail_value(const Error& error) {
  throw ContractViolation(error.text() + " (value() of a Result that is an error: ask ok() first)");
}

}  // namespace lockstep
