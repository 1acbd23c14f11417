// Declares the calls of serving, and the samplers that take them. The core has only one function
// for these calls, Sampler::run_serving(), so that the core does not depend on serving.
#pragma once

#include <string>
#include <type_traits>
#include <variant>

#include "harness/contract/drafts.h"
#include "harness/contract/sampler.h"
#include "harness/contract/sequence.h"

namespace fairdraw::harness {

struct ServingCall {
  std::variant<const fairdraw_chain*, const fairdraw_verification*, const fairdraw_event*> call;
};

/// A sampler `Rows` to which the calls of serving are added. All functions return an empty string
/// or a reason, as run() does.
template <class Rows = Sampler>
class Serves : public Rows {
 public:
  using Rows::Rows;

  std::string run_serving(const ServingCall& call) final {
    return std::visit(
        [this]<class Call>(const Call* of) {
          if constexpr (std::is_same_v<Call, fairdraw_chain>) {
            return run_chain(*of);
          } else if constexpr (std::is_same_v<Call, fairdraw_verification>) {
            return run_speculation(*of);
          } else {
            return run_event(*of);
          }
        },
        call.call);
  }

  /// Verifies drafted chains. Precondition: description().chains.
  virtual std::string run_chain(const fairdraw_chain& /*chain*/) {
    return this->description().name + " verifies no drafted chains";
  }

  /// Verifies requests with drafted tokens. Precondition: description().speculation.
  virtual std::string run_speculation(const fairdraw_verification& /*verification*/) {
    return this->description().name + " verifies no requests";
  }

  /// Receives an event of a running batch, and updates the requests that the sampler keeps.
  /// Precondition: description().keeps_state.
  virtual std::string run_event(const fairdraw_event& /*event*/) {
    return this->description().name + " keeps no requests";
  }
};

}  // namespace fairdraw::harness
