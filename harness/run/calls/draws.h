// Many draws from one row, by every means that a sampler offers.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/calls/request.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// Counts the tokens of a call; where it did not run, its trouble.
void add_tokens(const Response& response, Counts& counts);

/// `draws` draws from row 0 of `row` (a request of one row). Three methods alternate, as far as the
/// sampler has them: many samples of one output; many outputs of one row, each with its offset,
/// as consecutive steps of serving have; one scalar seed for many outputs. Each call has a seed of
/// its own: mixed(seed, number of the call).
Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed);

/// The same, all of them samples of one output a call: of samplers that have these.
Counts count_samples(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed);

/// Which of the calls are made: numbers i with i % parts == part - 1. What a call draws depends on
/// its number alone, so that parts share no seed, and their counts add up to those of the whole.
struct CasePart {
  std::uint32_t part = 1, parts = 1;
};
Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed,
                   CasePart part);

/// Where a check that counts the draws of one row gets them, in place of count_draws(). Of one run
/// of the check.
class CountSource {
 public:
  virtual ~CountSource() = default;
  virtual Counts count(Sampler& sampler, const Request& row, std::uint64_t draws,
                       std::uint64_t seed) = 0;
  /// The look that a part makes, 0 or 1; its counts decide nothing, and the check must not judge
  /// them. Absent: the counts are whole.
  virtual std::optional<int> part_of_look() const { return std::nullopt; }
};

/// Makes a part of the draws, and keeps the counts.
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

/// Adds up what all parts have counted, and draws nothing.
class JoinedCounts final : public CountSource {
 public:
  explicit JoinedCounts(std::vector<std::vector<CountedDraws>> parts) : parts_(std::move(parts)) {}
  /// Throws std::runtime_error where a part lacks these draws: they are those of a second look.
  Counts count(Sampler& sampler, const Request& row, std::uint64_t draws,
               std::uint64_t seed) override;
  bool lacks_some() const { return lacks_some_; }

 private:
  std::vector<std::vector<CountedDraws>> parts_;
  bool lacks_some_ = false;
};

}  // namespace fairdraw::harness
