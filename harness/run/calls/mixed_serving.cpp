// Implements calls of serving that two samplers answer.
#include <variant>

#include "harness/contract/serving.h"
#include "harness/contract/serving_arrays.h"
#include "harness/run/calls/mixed_call.h"

namespace fairdraw::harness {
namespace {

std::vector<RowFacts> rows_of(const fairdraw_chain& chain) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < chain.batch; ++row) {
    rows.push_back({{}, chain.vocab, chain.dtype, row, chain.batch, false});
  }
  return rows;
}

std::vector<RowFacts> rows_of(const fairdraw_verification& verification) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < verification.batch; ++row) {
    rows.push_back({{verification.temperature[row], verification.top_k[row],
                     verification.top_p[row], verification.min_p[row]},
                    verification.vocab,
                    verification.dtype,
                    row,
                    verification.batch,
                    verification.processing.repetition_penalty != nullptr});
  }
  return rows;
}

std::vector<RowFacts> rows_of(const fairdraw_event& event,
                              std::map<std::int32_t, RowFacts>& slots) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < event.rows && event.slot != nullptr; ++row) {
    RowFacts& kept = slots[event.slot[row]];
    if (event.temperature != nullptr) {
      kept = {{event.temperature[row], event.top_k[row], event.top_p[row], event.min_p[row]},
              event.vocab,
              event.dtype,
              0,
              1,
              event.processing.repetition_penalty != nullptr};
    }
    kept.row = row;
    kept.rows = event.rows;
    rows.push_back(kept);
  }
  return rows;
}

template <class Call>
std::string ask(Sampler& sampler, const Call& call) {
  return sampler.run_serving({&call});
}

}  // namespace

std::string MixedSampler::run_serving(const ServingCall& call) {
  return std::visit(
      [this]<class Call>(const Call* of) {
        if constexpr (std::is_same_v<Call, fairdraw_event>) {  // both samplers need all events
          return mix(*of, rows_of(*of, slots_), of->rows, nullptr, true, ask<Call>);
        } else {
          return mix(*of, rows_of(*of), of->batch, nullptr, false, ask<Call>);
        }
      },
      call.call);
}

}  // namespace fairdraw::harness
