// A sampler that draws from what the real-number oracle says under a profile: each engine's
// distribution without the engine. `fairdraw identify --sampler profile:NAME`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/calls/random_words.h"
#include "reference/real_oracle.h"

namespace fairdraw::suites {

/// The random words of one draw, as many as it asks for.
struct Words {
  std::uint64_t first;
  std::uint64_t operator()(std::uint32_t i) const {
    return i == 0 ? first : harness::mixed(first, i);
  }
};

/// Probabilities [vocab] of a row without its filters, and with them: of what stays, in proportion.
struct RowToDraw {
  const std::vector<double>& whole;
  const std::vector<double>& kept;
};
using DrawToken = std::function<std::size_t(const Words&)>;
/// Makes what draws from a row.
using WayToDraw = std::function<DrawToken(const RowToDraw&)>;

/// How a sampler draws, where not by a search in the order of ids with the specification's words.
struct Manner {
  enum class Order { forward, backward, two_threads };
  WayToDraw way = nullptr;
  bool other_words = false;      ///< of a hash of seed, offset and number
  Order order = Order::forward;  ///< of outputs
};

/// Where the profile leaves open which of equal tokens stay, those with the highest ids do, so that
/// it is told from one that takes the lowest; where it leaves open whether anything goes, nothing
/// does. A row that the profile calls undefined gives token 0, one that must fail -1; or the whole
/// call is refused for it, as engines do that raise an error. Logits are divided by the temperature
/// and exponentiated in float32 where the profile has slack for that, and summed exactly. float32
/// only.
class ProfileSampler final : public harness::Sampler {
 public:
  enum class Failing { rows, calls };
  explicit ProfileSampler(const reference::Semantics& semantics, Failing failing = Failing::rows,
                          Manner manner = {});
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override;

 private:
  struct Row {
    bool active = true, fails = false;
    std::vector<bool> kept;      // [vocab]
    std::vector<double> prefix;  // [vocab] of the distribution
    DrawToken draw;              // in the place of a search there
  };
  Row prepare(const fairdraw_batch& batch, std::int64_t row) const;
  reference::RealDistribution distribution(const fairdraw_batch& batch, std::int64_t row,
                                           const std::vector<float>& values,
                                           const reference::RowParameters& parameters) const;
  void answer(const fairdraw_batch& batch, const std::vector<Row>& rows, std::int64_t output) const;

  reference::Semantics semantics_;
  bool rounds_;  // logits over the temperature and weights to float32, as the engine does
  Failing failing_;
  Manner manner_;
  harness::SamplerDescription description_;
};

/// "profile:NAME" or a built-in sampler. Throws harness::UsageError, with the closest name.
std::unique_ptr<harness::Sampler> make_named_sampler(const std::string& name);

/// `semantics` in real arithmetic: without weight and sum errors and what else bounds an engine's
/// rounding.
reference::Semantics without_slack(reference::Semantics semantics);

/// Weights of a row at temperature 1 as a float32 sampler has them, exp(x - max) rounded to
/// float32: exact for logits that are multiples of ln 2 by a power of two.
std::vector<float> float32_weights(const std::vector<float>& logits);

}  // namespace fairdraw::suites
