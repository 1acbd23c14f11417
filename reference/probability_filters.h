// A second implementation of the filters by probability, by sorting, from the definition in
// fairdraw/logits_processing.h; and a judgement in real numbers with an error bound. The code
// shares nothing with the kernels. Precondition: the default floating-point environment.
#pragma once

#include <vector>

#include "reference/processing_model.h"
#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// The errors within which an arithmetic decides the filters by probability. The relative error of
/// the weight of a token d below the largest logit is constant + per_logit * d.
struct FilterBound {
  double constant = 0x1p-22;
  double per_logit = 0x1p-24;
  double offset = 0x1p-23;  ///< relative error of an offset from the mean logit
  double step = 0x1p-31;    ///< absolute error of an offset
};

/// Returns the steps of filters of a row, in their order: those of its chain, or steps 8 and 9. A
/// row with a faulty chain has none.
std::vector<FilterStep> filter_steps(const RowProcessing& row);

/// Applies one step of filters in place, but not top_n_sigma, with the integers that define it, at
/// the temperature that the row's chain has reached; adaptive_p changes the logits of tokens.
/// Precondition: the parameters are in their ranges, and a token is left.
void apply_step(std::vector<float>& logits, const RowProcessing& row, FilterStep step,
                float temperature);

/// Returns the temperature with which a processed row is drawn, if that of the request is
/// `temperature`. Rows whose parameters are out of their ranges, or with no token left, keep it.
float dynamic_temperature(const std::vector<float>& processed, const RowProcessing& row,
                          float temperature);

/// Judges in real numbers which tokens one filter keeps, if all filters of `row` but one are off,
/// at the temperature that its chain has reached. A token is ambiguous if an arithmetic within the
/// bound may keep it or drop it; a token at -inf is out. Throws std::invalid_argument if more than
/// one filter is on.
std::vector<Membership> judge_filter(const std::vector<float>& logits, const RowProcessing& row,
                                     const FilterBound& bound = {});

/// Returns the bound of an engine that weighs rows of `vocab` logits in float32. With u = 2^-24 and
/// exponentials and logarithms that are off by at most 4 u, a weight is off by 6 u and by 2 u per
/// logit, a sum of n terms by n u, and so a probability by (n + 8) u and its logarithm, which is
/// below 128, by (n + 8) u + 128 u. The mean of n such logarithms is off by as much once more.
FilterBound float32_filter_bound(std::size_t vocab);

/// Returns whether an arithmetic within the bound may keep another set than one step of filters
/// does, or an engine that sorts tokens may split equal logits at the end of the set. top_n_sigma
/// and a temperature are decided.
bool is_undecided(const std::vector<float>& logits, const RowProcessing& row, FilterStep step,
                  float temperature, const FilterBound& bound);

}  // namespace fairdraw::reference
