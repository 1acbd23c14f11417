// Combines a sampler that answers some of the rows with a right sampler that answers all other
// rows. A failed run uses the mixed sampler to find in which rows a mistake shows, and mutants use
// it to make a mistake depend on a condition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "reference/integer_model.h"

namespace fairdraw::harness {

/// The properties of a row of a call, or of a request with drafts, on which a condition may depend.
struct RowFacts {
  reference::RowParameters parameters;  ///< has no effect if the call has no parameters
  std::int64_t vocab = 0;
  std::uint32_t dtype = 0;         ///< dtype of the row, as in fairdraw_batch::dtype
  std::int64_t row = 0, rows = 1;  ///< number of the row in the call, and of all its rows
  bool processed = false;          ///< true if the call has logits processing
};

using RowCondition = std::function<bool(const RowFacts&)>;

/// A sampler that answers the rows for which `where` holds with one sampler, and all other rows
/// with the other sampler. Each of the two samplers is called only if it answers some row, and then
/// gets the whole call. Events of a running batch are sent to both samplers; `where` selects which
/// of their answers is used.
class MixedSampler final : public Sampler {
 public:
  /// The mixed sampler has the description of `sampler`. `right` may be null if `where` holds for
  /// every row.
  MixedSampler(std::unique_ptr<Sampler> sampler, std::unique_ptr<Sampler> right,
               RowCondition where);

  const SamplerDescription& description() const override { return sampler_->description(); }
  std::pmr::memory_resource* memory() override { return sampler_->memory(); }
  std::string broken() const override { return sampler_->broken(); }
  void recover() override { sampler_->recover(); }

  std::string run(const fairdraw_batch& batch) override;
  std::string run_operation(const fairdraw_operation& operation) override;
  std::string run_serving(const ServingCall& call) override;

 private:
  template <class Call, class Ask>
  std::string mix(const Call& call, const std::vector<RowFacts>& rows, std::int64_t outputs,
                  const std::int32_t* indices, bool asks_both, const Ask& ask);

  std::unique_ptr<Sampler> sampler_, right_;
  RowCondition where_;
  std::map<std::int32_t, RowFacts> slots_;  ///< of a running batch
};

}  // namespace fairdraw::harness
