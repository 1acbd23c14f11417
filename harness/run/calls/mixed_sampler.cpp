#include "harness/run/calls/mixed_sampler.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "harness/contract/serving_arrays.h"

namespace fairdraw::harness {
namespace {

std::string ask(Sampler& sampler, const fairdraw_batch& call) { return sampler.run(call); }
std::string ask(Sampler& sampler, const fairdraw_operation& call) {
  return sampler.run_operation(call);
}
template <class Call>
std::string ask(Sampler& sampler, const Call& call) {
  return sampler.run_serving({&call});
}

// Copies of the results of a call, as they are before it.
template <class Call>
class OwnResults {
 public:
  explicit OwnResults(const Call& call) : call_(call) {
    CallArrays<Call>::each(call, [&](auto field, const CallArray& array) {
      if constexpr (is_result<decltype(field(call_))>) {
        if (field(call) == nullptr || array.bytes() == 0) return;
        const auto* const first = reinterpret_cast<const std::byte*>(field(call));
        copies_.emplace_back(first, first + array.bytes());
        field(call_) =
            reinterpret_cast<std::remove_cvref_t<decltype(field(call_))>>(copies_.back().data());
      }
    });
  }
  const Call& call() const { return call_; }

 private:
  Call call_;
  std::vector<std::vector<std::byte>> copies_;
};

// Results of a row; all others are of an output.
bool is_of_rows(std::string_view array) {
  constexpr std::array<std::string_view, 4> kOfRows = {"mask", "probs", "report_all", "result"};
  return std::ranges::find(kOfRows, array) != kOfRows.end();
}

}  // namespace

MixedSampler::MixedSampler(std::unique_ptr<Sampler> sampler, std::unique_ptr<Sampler> right,
                           RowCondition where, Answered* answered)
    : sampler_(std::move(sampler)),
      right_(std::move(right)),
      where_(std::move(where)),
      answered_(answered) {}

template <class Call>
std::string MixedSampler::mix(const Call& call, const std::vector<RowFacts>& rows,
                              std::int64_t outputs, const std::int32_t* indices) {
  std::vector<bool> own;
  for (const RowFacts& row : rows) own.push_back(where_(row));
  const auto by_sampler = static_cast<std::size_t>(std::ranges::count(own, true));
  if (answered_ != nullptr) {
    answered_->by_sampler += by_sampler;
    answered_->by_right += own.size() - by_sampler;
  }
  if constexpr (!std::is_same_v<Call, fairdraw_event>) {  // which both have to know
    if (by_sampler == own.size()) return ask(*sampler_, call);
    if (by_sampler == 0) return ask(*right_, call);
  }
  // First, because the sampler may write over what the call holds.
  const OwnResults<Call> right(call);
  std::string refused = ask(*right_, right.call());
  if (refused.empty()) refused = ask(*sampler_, call);
  if (!refused.empty()) return refused;
  CallArrays<Call>::each(call, [&](auto field, const CallArray& array) {
    if constexpr (is_result<decltype(field(call))>) {
      if (field(call) == nullptr || array.bytes() == 0) return;
      const bool of_rows = is_of_rows(array.name);
      const std::int64_t width = of_rows ? array.width : array.rows * array.width / outputs;
      const std::int64_t stride = of_rows ? array.stride : width;
      auto* const to = reinterpret_cast<std::byte*>(field(call));
      const auto* const from = reinterpret_cast<const std::byte*>(field(right.call()));
      for (std::int64_t at = 0; at < (of_rows ? array.rows : outputs); ++at) {
        const std::int64_t row = of_rows || indices == nullptr ? at : indices[at];
        const bool is_row = row >= 0 && row < static_cast<std::int64_t>(own.size());
        if (!is_row || own[static_cast<std::size_t>(row)]) continue;
        std::memcpy(to + at * stride * array.value_bytes, from + at * stride * array.value_bytes,
                    static_cast<std::size_t>(width * array.value_bytes));
      }
    }
  });
  return {};
}

std::string MixedSampler::run(const fairdraw_batch& batch) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    rows.push_back(
        {{batch.temperature[row], batch.top_k[row], batch.top_p[row], batch.min_p[row]},
         batch.vocab,
         batch.dtype,
         row,
         batch.rows,
         batch.processing.repetition_penalty != nullptr});
  }
  return mix(batch, rows, batch.outputs, batch.indices);
}

std::string MixedSampler::run_operation(const fairdraw_operation& operation) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < operation.rows; ++row) {
    const std::int64_t at = operation.parameter_is_scalar != 0 ? 0 : row;
    RowFacts facts = {{}, operation.vocab, operation.dtype, row, operation.rows, false};
    if (operation.temperature != nullptr) facts.parameters.temperature = operation.temperature[at];
    if (operation.top_k != nullptr) facts.parameters.top_k = operation.top_k[at];
    if (operation.top_p != nullptr) facts.parameters.top_p = operation.top_p[at];
    if (operation.min_p != nullptr) facts.parameters.min_p = operation.min_p[at];
    rows.push_back(facts);
  }
  return mix(operation, rows, operation.rows, nullptr);
}

std::string MixedSampler::run_chain(const fairdraw_chain& chain) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < chain.batch; ++row) {
    rows.push_back({{}, chain.vocab, chain.dtype, row, chain.batch, false});
  }
  return mix(chain, rows, chain.batch, nullptr);
}

std::string MixedSampler::run_speculation(const fairdraw_verification& verification) {
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
  return mix(verification, rows, verification.batch, nullptr);
}

std::string MixedSampler::run_event(const fairdraw_event& event) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < event.rows && event.slot != nullptr; ++row) {
    RowFacts& kept = slots_[event.slot[row]];
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
  return mix(event, rows, event.rows, nullptr);
}

}  // namespace fairdraw::harness
