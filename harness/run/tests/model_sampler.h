// A sampler made of the integer model: right by definition, slow, and easy to spoil. Mutants are
// this sampler with one step overridden.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "reference/integer_model.h"

namespace fairdraw::harness {

class ModelSampler : public Sampler {
 public:
  ModelSampler();
  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override;

 protected:
  /// The row of logits and the parameters that output `row` is computed from.
  struct Row {
    std::vector<float> logits;
    std::vector<std::uint32_t> allowed;
    reference::RowParameters parameters;
    TieRule tie_rule = TieRule::keep_all;
    FilterOrder filter_order = FilterOrder::top_k_first;
  };

  // Steps, in order; a mutant overrides one.
  virtual std::int64_t parameters_row(const fairdraw_batch&, std::int64_t row) { return row; }
  virtual reference::IntegerRow model(const Row& row);
  virtual std::int64_t seed_index(const fairdraw_batch& batch, std::int64_t output);
  virtual std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index);
  virtual std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word);
  virtual std::int32_t report_status(RowStatus status) { return static_cast<std::int32_t>(status); }
  virtual float report_probability(const reference::IntegerRow& row, std::int32_t token);
  virtual void finish(const fairdraw_batch&) {}  ///< in the caller's float environment

  SamplerDescription description_;

 private:
  void sample(const fairdraw_batch& batch);
};

/// A mutant: what is wrong with it, and how to make it.
struct Mutant {
  std::string name;
  std::function<std::unique_ptr<Sampler>()> make;
};

const std::vector<Mutant>& mutants();
std::unique_ptr<Sampler> make_mutant(const std::string& name);

}  // namespace fairdraw::harness
