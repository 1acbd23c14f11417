// A sampler that wraps another sampler, sees every call and forwards the call.
#pragma once

#include <string>

#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// A sampler that forwards calls to `sampler`, which must outlive this object. Derived classes add
/// code before or after each call.
class ForwardingSampler : public Sampler {
 public:
  explicit ForwardingSampler(Sampler& sampler) : sampler_(sampler) {}

  const SamplerDescription& description() const override { return sampler_.description(); }
  std::pmr::memory_resource* memory() override { return sampler_.memory(); }
  std::string broken() const override { return sampler_.broken(); }
  void recover() override { sampler_.recover(); }

  std::string run(const fairdraw_batch& batch) override {
    return around([&] { return sampler_.run(batch); });
  }
  std::string run_operation(const fairdraw_operation& operation) override {
    return around([&] { return sampler_.run_operation(operation); });
  }
  std::string run_serving(const ServingCall& call) override {
    return around([&] { return sampler_.run_serving(call); });
  }

 protected:
  /// Returns the reason why the call is not forwarded, or an empty string if it is.
  virtual std::string before_call() { return {}; }
  virtual void after_call() {}

  Sampler& forwarded() const { return sampler_; }

 private:
  template <class Call>
  std::string around(const Call& call) {
    std::string refused = before_call();
    if (!refused.empty()) return refused;
    refused = call();
    after_call();
    return refused;
  }

  Sampler& sampler_;
};

}  // namespace fairdraw::harness
