// Reads the arguments of operations from rows to rows, in the form of fairdraw/row_operations.py.
// Each struct keeps its arrays alive and raises an error for a wrong argument.
#pragma once

#include <cstdint>

#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// Rows, the device of the rows, and an optional array for the rows' statuses.
struct RowArguments {
  RowArguments(const char* name, const Named& given)
      : rows(rows_of(name, given[name])),
        place(place_of(given, rows.array)),
        statuses("statuses", given["statuses"], rows.view.rows, place) {}
  Rows rows;
  Place place;
  Statuses statuses;
};

struct SoftmaxArguments : RowArguments {
  explicit SoftmaxArguments(const Named& given)
      : RowArguments("logits", given),
        temperature(temperature_of(given["temperature"], place)),
        probs(float_rows("probs", given["probs"], rows.view, place, keep)) {}
  Parameter<float> temperature;
  OutputArray keep;
  FloatRows probs;
};

/// `masked` is an output with the same dtype as the logits, without gaps between rows.
struct TopKMaskArguments : RowArguments {
  explicit TopKMaskArguments(const Named& given)
      : RowArguments("logits", given),
        top_k(top_k_of(given["top_k"], place)),
        masked(output_array("masked", given["masked"], rows.array.dtype(),
                            rows.view.rows * rows.view.vocab, place)) {}
  Parameter<std::int32_t> top_k;
  OutputArray masked;
};

/// Arguments of a call with top-k or top-p; the other filter is off.
struct RenormArguments : RowArguments {
  explicit RenormArguments(const Named& given)
      : RowArguments("probs", given),
        renormalised(float_rows("renormalised", given["renormalised"], rows.view, place, keep)),
        by_top_k(given.as<bool>("by_top_k")) {
    top_p.value = 1.0F;
    if (by_top_k) {
      top_k = top_k_of(given["parameter"], place);
    } else {
      top_p = probability("top_p", given["parameter"], place);
    }
  }
  OutputArray keep;
  FloatRows renormalised;
  bool by_top_k;
  Parameter<std::int32_t> top_k;
  Parameter<float> top_p;
};

}  // namespace fairdraw::python
