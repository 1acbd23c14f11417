// A sampler that draws from the real-number oracle's distribution under a profile. The sampler has
// each engine's distribution without the engine: `fairdraw identify --sampler profile:NAME`.
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

/// The random words of one draw, as many as the drawing function asks for.
struct Words {
  std::uint64_t first;
  std::uint64_t operator()(std::uint32_t i) const {
    return i == 0 ? first : harness::mixed(first, i);
  }
};

/// Probabilities [vocab] of a row before its filters (`whole`), and after them (`kept`,
/// renormalised).
struct RowToDraw {
  const std::vector<double>& whole;
  const std::vector<double>& kept;
};
using DrawToken = std::function<std::size_t(const Words&)>;
/// A function that makes a drawing function for a row.
using WayToDraw = std::function<DrawToken(const RowToDraw&)>;

/// The method by which a sampler draws. The default is a search in the order of ids with the
/// specification's words.
struct Manner {
  enum class Order { forward, backward, two_threads };
  WayToDraw way = nullptr;
  bool other_words = false;      ///< whether random words come from another hash of seed, offset
                                 ///< and number
  Order order = Order::forward;  ///< order of outputs
};

/// A sampler of a profile, for float32 only. If the profile leaves open which of equal tokens are
/// kept, the tokens with the highest ids are kept, so that the sampler differs from a profile that
/// keeps the lowest ids. If the profile leaves open whether any token is removed, no token is. A
/// row that the profile leaves undefined gives token 0. A row that must fail gives -1, or the whole
/// call is refused, as by engines that raise an error. Logits are divided by the temperature and
/// exponentiated in float32 if the profile has slack for that, and summed exactly.
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
    std::vector<double> prefix;  // [vocab] prefix sums of the distribution
    DrawToken draw;              // drawing function used instead of a search in `prefix`
  };
  Row prepare(const fairdraw_batch& batch, std::int64_t row) const;
  reference::RealDistribution distribution(const fairdraw_batch& batch, std::int64_t row,
                                           const std::vector<float>& values,
                                           const reference::RowParameters& parameters) const;
  void answer(const fairdraw_batch& batch, const std::vector<Row>& rows, std::int64_t output) const;

  reference::Semantics semantics_;
  bool rounds_;  // whether scaled logits and weights are rounded to float32, as in the engine
  Failing failing_;
  Manner manner_;
  harness::SamplerDescription description_;
};

/// Makes a sampler from "profile:NAME" or the name of a built-in sampler. Throws
/// harness::UsageError with the closest name for an unknown name.
std::unique_ptr<harness::Sampler> make_named_sampler(const std::string& name);

/// Returns `semantics` in real arithmetic, without the bounds of weight errors, sum errors and
/// other rounding.
reference::Semantics without_slack(reference::Semantics semantics);

/// Returns the weights of a row at temperature 1 in a float32 sampler: exp(x - max) rounded to
/// float32. The weights are exact for logits that are ln 2 times 0 or a power of two.
std::vector<float> float32_weights(const std::vector<float>& logits);

}  // namespace fairdraw::suites
