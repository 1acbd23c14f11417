// The arguments of operations from rows to rows, as fairdraw/row_operations.py gives them. Each of
// them keeps its arrays alive, and raises what is wrong with them.
#pragma once

#include <cstdint>

#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// Rows, where they lie, and an array for their statuses, or None.
struct RowArguments {
  RowArguments(const char* name, nb::handle values, nb::handle wanted_statuses,
               std::uint64_t stream, nb::handle workspace)
      : rows(rows_of(name, values)),
        place(place_of(rows.array, stream, workspace)),
        statuses("statuses", wanted_statuses, rows.view.rows, place) {}
  Rows rows;
  Place place;
  Statuses statuses;
};

struct SoftmaxArguments : RowArguments {
  SoftmaxArguments(nb::handle logits, nb::handle given_temperature, nb::handle wanted_probs,
                   nb::handle wanted_statuses, std::uint64_t stream, nb::handle workspace)
      : RowArguments("logits", logits, wanted_statuses, stream, workspace),
        temperature(temperature_of(given_temperature, place)),
        probs(float_rows("probs", wanted_probs, rows.view, place, keep)) {}
  Parameter<float> temperature;
  OutputArray keep;
  FloatRows probs;
};

/// `masked`: as the logits are, without space between rows.
struct TopKMaskArguments : RowArguments {
  TopKMaskArguments(nb::handle logits, nb::handle given_top_k, nb::handle wanted_masked,
                    nb::handle wanted_statuses, std::uint64_t stream, nb::handle workspace)
      : RowArguments("logits", logits, wanted_statuses, stream, workspace),
        top_k(top_k_of(given_top_k, place)),
        masked(output_array("masked", wanted_masked, rows.array.dtype(),
                            rows.view.rows * rows.view.vocab, place)) {}
  Parameter<std::int32_t> top_k;
  OutputArray masked;
};

/// By one of the two parameters; the other one is off.
struct RenormArguments : RowArguments {
  RenormArguments(bool by_top_k, nb::handle probs, nb::handle parameter,
                  nb::handle wanted_renormalised, nb::handle wanted_statuses, std::uint64_t stream,
                  nb::handle workspace)
      : RowArguments("probs", probs, wanted_statuses, stream, workspace),
        renormalised(float_rows("renormalised", wanted_renormalised, rows.view, place, keep)) {
    top_p.value = 1.0F;
    if (by_top_k) {
      top_k = top_k_of(parameter, place);
    } else {
      top_p = probability("top_p", parameter, place);
    }
  }
  OutputArray keep;
  FloatRows renormalised;
  Parameter<std::int32_t> top_k;
  Parameter<float> top_p;
};

}  // namespace fairdraw::python
