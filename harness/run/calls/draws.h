// Makes many draws from one row, by every method that a sampler offers.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/calls/request.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// Counts the tokens of a call; if the call did not run, stores the reason.
void add_tokens(const Response& response, Counts& counts);

/// Makes `draws` draws from row 0 of `row`, which is a request of one row. Three methods alternate,
/// as far as the sampler supports them: many samples of one output; many outputs of one row with an
/// offset each, like consecutive steps of serving; and one scalar seed for many outputs. Each call
/// has its own seed, which is mixed(seed, number of the call). Draws of a marked row have the marks
/// of vary_marks(), so that they have the distribution of the row without marks. A call has at most
/// `most_outputs` outputs; 0: no limit but its memory.
Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed,
                   std::int64_t most_outputs = 0);

/// Makes the draws as samples, with one output per call. Precondition: the sampler supports
/// samples.
Counts count_samples(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed);

/// A part of a case, which makes the calls with numbers i for which i % parts == part - 1. The
/// draws of a call depend only on its number, so no two parts share a seed, and the counts of all
/// parts add up to those of the whole case.
struct CasePart {
  std::uint32_t part = 1, parts = 1;
};
Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed,
                   CasePart part, std::int64_t most_outputs = 0);

/// A source of counts for a check of one row, in place of count_draws(), for one run of the check.
class CountSource {
 public:
  virtual ~CountSource() = default;
  virtual Counts count(Sampler& sampler, const Request& row, std::uint64_t draws,
                       std::uint64_t seed) = 0;
  /// Returns which look this part makes, 0 or 1. The check must not judge the counts of a part
  /// alone. If there is no value, the counts are those of the whole case.
  virtual std::optional<int> part_of_look() const { return std::nullopt; }
};

/// A source that makes a part of the draws and keeps the counts.
class PartCounts final : public CountSource {
 public:
  PartCounts(CasePart part, int look) : part_(part), look_(look) {}
  Counts count(Sampler& sampler, const Request& row, std::uint64_t draws,
               std::uint64_t seed) override;
  std::optional<int> part_of_look() const override { return look_; }
  const std::vector<CountedDraws>& counted() const { return counted_; }

 private:
  CasePart part_;
  int look_;
  std::vector<CountedDraws> counted_;
};

/// A source that adds up the counts of all parts and draws nothing.
class JoinedCounts final : public CountSource {
 public:
  explicit JoinedCounts(std::vector<std::vector<CountedDraws>> parts) : parts_(std::move(parts)) {}
  /// Throws std::runtime_error if a part lacks these draws, which then belong to a second look.
  Counts count(Sampler& sampler, const Request& row, std::uint64_t draws,
               std::uint64_t seed) override;
  bool lacks_some() const { return lacks_some_; }

 private:
  std::vector<std::vector<CountedDraws>> parts_;
  bool lacks_some_ = false;
};

}  // namespace fairdraw::harness
