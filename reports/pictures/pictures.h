// The pictures of a report, each a whole <svg> element (the boundary of a mask: a <table>), drawn
// from what the record holds and nothing else. Equal input gives equal bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"

namespace fairdraw::reports::pictures {

/// Draws observed in each bin against those expected, with a band of three standard deviations of
/// the binomial distribution.
std::string profile(const harness::Profile& profile);

/// Signed residuals in standard deviations, one picture for each axis (rank, token id, lane), all
/// to the same scale: where they are large together names the bug.
std::string residuals(const std::vector<harness::Profile>& profiles);

/// Of these the one picture whose axis has the bin that is farthest off; `profiles` is not empty.
std::string clearest_residuals(const std::vector<harness::Profile>& profiles);

/// Difference of the empirical and the uniform distribution function with its simultaneous band.
std::string pit(const harness::PitEcdf& ecdf);

/// -log10 of the p values of all cases against those of as many uniform ones, with a band that
/// holds them all in 95 % of right runs; empty without a p value.
std::string qq(const harness::RunRecord& record);

/// log10 of the evidence against draws, with the line at which the case is decided.
std::string growth(const harness::Growth& growth);

/// The smallest discrepancy that is found against draws, for all statistical cases, with the
/// curves of those that have one; empty without such a case.
std::string power(const harness::RunRecord& record);

/// One case's curve, with the draws made and what the case must find.
std::string power(const harness::CaseRecord& record);

/// Scores of dependence as a heat map.
std::string dependence(const harness::Dependence& dependence);

/// Tokens around the boundary of a mask, as a table.
std::string boundary(const harness::Boundary& boundary);

/// The same as two bars, what must be kept and what the sampler keeps or draws: tokens by falling
/// probability, each as wide as its probability, and the line at which top_p cuts, where that
/// filter alone does. Empty where no token has a width.
std::string mask_bar(const harness::Boundary& boundary);

/// How well that picture shows a mistake, from 0 (none, or no picture) to 1: one wrong token that
/// is wide, and the line of the cut well within.
double clarity_of_mask(const harness::Boundary& boundary);

/// An effect's value with its interval, and what was expected.
std::string interval(const harness::Effect& effect);

/// Wrong samplers against the checks that judged them.
std::string kill_matrix(const std::vector<MutantRow>& mutants);

/// Time as a multiple of the floor's, one bar a row.
std::string benchmark_bars(const std::vector<harness::BenchmarkRecord>& rows);

/// How cases ended together, as a cell of a matrix has it: "good", "bad", "unsure" or "absent", and
/// a sign with the number of red ones.
std::string_view outcome_kind(const harness::Summary& counts);
std::string outcome_mark(const harness::Summary& counts);

/// Samplers against checks, of all records: how many cases of each passed.
std::string conformance(const std::vector<const harness::RunRecord*>& records);

}  // namespace fairdraw::reports::pictures
