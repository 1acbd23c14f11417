// Computes one row's result by the definition of a profile, as fairdraw.verification.expected_row.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "harness/contract/semantics_text.h"
#include "harness/run/checks/check.h"
#include "python/bindings/arrays.h"
#include "python/bindings/bindings.h"
#include "reference/real_oracle.h"

namespace fairdraw::python {
namespace {

using FloatRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::dict expected_row(const std::string& profile, const FloatRow& logits, float temperature,
                      std::int32_t top_k, float top_p, float min_p) {
  if (logits.size() == 0) throw_value_error("logits has no token");
  const reference::RowParameters parameters = {temperature, top_k, top_p, min_p};
  const auto [semantics, bound] = harness::judged_by(harness::semantics_from_text(profile), false,
                                                     static_cast<std::int64_t>(logits.size()));
  const reference::RealDistribution row = reference::real_oracle(
      std::span(logits.data(), logits.size()), {}, parameters, semantics, bound);
  std::vector<std::int64_t> in, may;
  std::vector<double> probability;
  for (std::size_t token = 0; token < row.membership.size(); ++token) {
    const auto id = static_cast<std::int64_t>(token);
    if (row.membership[token] == reference::Membership::in) in.push_back(id);
    if (row.membership[token] != reference::Membership::out) may.push_back(id);
    if (row.has_frequency(token)) {
      probability.push_back(row.probability[token]);
    } else {
      probability.push_back(-1);
    }
  }
  nb::dict expected;
  expected["defined"] = row.defined;
  expected["must_fail"] = row.must_fail;
  expected["kept"] = in;
  expected["may_be_kept"] = may;
  expected["fewest"] = row.support_low;
  expected["most"] = row.support_high;
  expected["probability"] = probability;
  expected["total_variation_bound"] = row.total_variation_bound;
  return expected;
}

}  // namespace

void bind_expected_row(nb::module_& module) {
  module.def("expected_row", &expected_row, nb::arg("semantics"), nb::arg("logits"),
             nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"));
}

}  // namespace fairdraw::python
