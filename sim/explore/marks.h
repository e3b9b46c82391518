// What a test campaign should show at least once, and whether it did: a property that holds in ten
// thousand worlds of which none restarted says nothing about restarts.
//
//   lockstep::Marks marks;
//   const auto restarted = marks.sometimes("a job is restarted");
//   rc::check([&] {
//     const auto run = lockstep::run_ranks(*lockstep::gen::world(), my_program);
//     restarted.look(!run.report.attempts.empty());
//   });
//   EXPECT_ALL_REACHED(marks);  // lockstep/gtest.h: names each mark that was never reached
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/laws/report.h"

namespace lockstep {

/// What one law said in the runs of a campaign.
struct LawCoverage {
  std::string law;
  std::uint64_t n_held = 0;
  std::uint64_t n_broken = 0;
  std::uint64_t n_unchecked = 0;  ///< Runs in which it had nothing to compare.

  bool was_checked() const { return n_held + n_broken > 0; }
};

/// Counts what each law of the report says; laws that are not in the list come to its end.
void count_laws(const Report& report, std::vector<LawCoverage>& laws);

/// How often one mark was looked at, and how often it was there.
struct MarkCount {
  std::string name;
  CallSite declared;
  std::uint64_t n_looked = 0;
  std::uint64_t n_reached = 0;
};

/// Marks of one campaign, declared before it starts, so that one whose line is never executed is
/// missed too.
///
/// Requires: outlives its handles; one thread at a time. Ranks of a simulated world may look.
/// Source: "sometimes" assertions of Antithesis; FoundationDB's CODE_PROBE.
class Marks {
 public:
  /// One declared mark: copies are the same one.
  class Handle {
   public:
    /// Counts. Returns: `there`.
    bool look(bool there) const;

   private:
    friend class Marks;

    Handle(Marks& marks, std::size_t place) : marks_(&marks), place_(place) {}

    Marks* marks_;
    std::size_t place_;
  };

  Marks() = default;
  ~Marks() = default;
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  Marks(Marks&&) = delete;
  Marks& operator=(Marks&&) = delete;

  /// Declares that what `name` says should come to pass in some run. `site` is where reports point to.
  Handle sometimes(std::string name, CallSite site = CallSite::here());

  /// Counts what the laws say of a run: text() names those that never had anything to check.
  void add(const Report& report) { count_laws(report, laws_); }

  const std::vector<MarkCount>& counts() const { return counts_; }

  const std::vector<LawCoverage>& laws() const { return laws_; }

  /// Those that were never there, in the order of declaration.
  std::vector<MarkCount> unreached() const;

  /// "marks: 1 of 2 reached", then each that was not, with its line; then laws, if runs were added.
  std::string text() const;

 private:
  std::vector<MarkCount> counts_;
  std::vector<LawCoverage> laws_;
};

/// "laws: 12 of 24 had something to check; broken: replicas-equal in 3; never: outer-step" and a
/// newline.
std::string laws_text(const std::vector<LawCoverage>& laws);

}  // namespace lockstep
