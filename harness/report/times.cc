// Where the time went, as a table.
#include <fmt/format.h>

#include "lockstep/harness/report/detail/sections.h"

namespace lockstep::page {

namespace {

void write_row(const std::string& what, const DurationSpread& spread, Html& out) {
  out.open("tr").element("th", what, {{"scope", "row"}});
  out.element("td", lockstep::duration_text(spread.median));
  out.element("td", lockstep::duration_text(spread.least));
  out.element("td", lockstep::duration_text(spread.most)).close("tr");
}

void write_calls(const std::vector<CallTimes>& calls, Html& out) {
  out.open_table("Collectives, most time in total first",
                 {"Call", "Bytes", "Ranks", "Calls", "Took (median)", "GB/s", "Bus GB/s"});
  for (const CallTimes& call : calls) {
    out.open("tr").element("th", name_of(call.op), {{"scope", "row"}});
    out.element("td", std::to_string(call.n_bytes));
    out.element("td", std::to_string(call.n_ranks));
    out.element("td", std::to_string(call.n_calls));
    out.element("td", lockstep::duration_text(call.took.median));
    out.element("td", fmt::format("{:.3g}", call.alg_gb_per_s));
    out.element("td", fmt::format("{:.3g}", call.bus_gb_per_s)).close("tr");
  }
  out.close_table();
}

}  // namespace

void write_times(const RunTimes& times, const std::string& id, Html& out) {
  out.open("section", {{"id", id + "-times"}}).element("h3", "Time");
  out.open("pre").text(times_text(times)).close("pre");
  out.open_table("A step of one rank", {"Part", "Median", "Least", "Most"});
  write_row("Step", times.step, out);
  write_row("Computing", times.compute, out);
  write_row("Communicating", times.communication, out);
  write_row("Waiting for it", times.exposed, out);
  out.close_table();
  if (!times.calls.empty()) write_calls(times.calls, out);
  out.close("section");
}

}  // namespace lockstep::page
