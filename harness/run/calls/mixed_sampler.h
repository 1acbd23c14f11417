// A sampler that answers some rows, combined with a right one that answers all others. A failed run
// uses the mixed sampler to find where a mistake shows, and mutants to make a mistake depend on a
// condition.
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

/// A row of a call, or a request of a call with drafts, as a condition sees it.
struct RowFacts {
  reference::RowParameters parameters;  ///< values without effect in calls without parameters
  std::int64_t vocab = 0;
  std::uint32_t dtype = 0;         ///< a value of fairdraw_batch::dtype
  std::int64_t row = 0, rows = 1;  ///< place of the row in the call, and the number of rows there
  bool processed = false;          ///< whether the call has logits processing
};

using RowCondition = std::function<bool(const RowFacts&)>;

/// Sampler that answers the rows for which `where` holds with one sampler, and the others with the
/// other. Each of the two is called only if it answers some row, and then gets the whole call.
/// Events of a running batch are sent to both samplers; `where` selects among their answers too.
class MixedSampler final : public Sampler {
 public:
  /// Numbers of rows that each sampler answered.
  struct Answered {
    std::size_t by_sampler = 0, by_right = 0;
  };

  /// The mixed sampler describes itself as `sampler`. `answered` may be null, and must outlive this
  /// object.
  MixedSampler(std::unique_ptr<Sampler> sampler, std::unique_ptr<Sampler> right, RowCondition where,
               Answered* answered = nullptr);

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
  Answered* answered_;
  std::map<std::int32_t, RowFacts> slots_;  ///< of a running batch
};

}  // namespace fairdraw::harness
