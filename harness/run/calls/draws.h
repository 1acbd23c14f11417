// Many draws from one row, by every means that a sampler offers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

struct Counts {
  std::vector<std::uint64_t> of_token;  ///< [vocab]
  std::uint64_t draws = 0;
  std::uint64_t no_token = 0;  ///< draws that gave something outside [0, vocab)
  std::string trouble;         ///< why drawing stopped; empty: it did not
};

/// `draws` draws from row 0 of `row` (a request of one row). Three methods alternate, as far as the
/// sampler has them: many samples of one output; many outputs of one row, each with its offset,
/// as consecutive steps of serving have; one scalar seed for many outputs. Seeds come from `seed`.
Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed);

}  // namespace fairdraw::harness
