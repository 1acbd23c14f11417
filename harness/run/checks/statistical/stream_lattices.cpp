#include "harness/run/checks/statistical/stream_lattices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

// Returns an upper bound of log(choose(n, k) m^k), with n^k / k! in place of choose(n, k); returns
// -infinity if k > n.
double log_rate(std::size_t n, std::size_t k, double most_likely) {
  if (k > n) return -std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(k);
  return count * std::log(static_cast<double>(n) * most_likely) - std::lgamma(count + 1);
}

// Returns neighbouring seeds or offsets, and each higher bit by itself, so that any shift before
// the mixing maps some of these values to others. If every output of the sampler needs its own row,
// and so costs as much as a call, only every eighth bit is taken, because most shifts are by whole
// bytes and words.
std::vector<std::uint64_t> neighbours_and_bits(std::uint64_t first,
                                               const SamplerDescription& sampler) {
  constexpr int kBits = 3;
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < bit(kBits); ++i) values.push_back(first + i);
  for (int number = kBits; number < 64; ++number) {
    if (sampler.indices || number % 8 == 0) values.push_back(first ^ bit(number));
  }
  return values;
}

std::vector<std::uint64_t> neighbours(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Counts the pairs of values of an axis (ordered, including each value with itself) by their
// difference modulo 2^64.
std::map<std::uint64_t, std::size_t> differences(const std::vector<std::uint64_t>& axis) {
  std::map<std::uint64_t, std::size_t> pairs;
  for (const std::uint64_t from : axis) {
    for (const std::uint64_t to : axis) ++pairs[to - from];
  }
  return pairs;
}

using Axes = std::array<std::vector<std::uint64_t>, 4>;

Axes axes_of(const StreamLattice& lattice) {
  return {lattice.seeds, lattice.offsets, neighbours(0, lattice.outputs),
          neighbours(0, lattice.samples)};
}

using Step = std::array<std::uint64_t, 4>;

// Returns the coordinates of draw number `at` on each axis.
Step place_of(const StreamLattice& lattice, std::size_t at) {
  const std::size_t output = at / lattice.samples, cell = output / lattice.outputs;
  return {lattice.seeds[cell / lattice.offsets.size()],
          lattice.offsets[cell % lattice.offsets.size()], output % lattice.outputs,
          at % lattice.samples};
}

std::string text_of(const Step& place) {
  return fmt::format("seed {:#x}, offset {:#x}, output {}, sample {}", place[0], place[1], place[2],
                     place[3]);
}

// Returns "seed + 0x1, offset - 0x1".
std::string text_of_step(const Step& step) {
  constexpr std::array<const char*, 4> kNames = {"seed", "offset", "output", "sample"};
  std::string text;
  for (std::size_t axis = 0; axis < step.size(); ++axis) {
    if (step[axis] == 0) continue;
    const bool negative = (step[axis] >> 63) != 0;
    text += fmt::format("{}{} {} {:#x}", text.empty() ? "" : ", ", kNames[axis],
                        negative ? "-" : "+", negative ? ~step[axis] + 1 : step[axis]);
  }
  return text;
}

// Returns the smallest number of repeats whose rate is at most `rate`, by Chernoff's bound for a
// Poisson variable: exp(k - mean - k log(k / mean)) for k > mean.
std::size_t repeats_of(double mean, double rate, std::size_t most) {
  for (auto k = static_cast<std::size_t>(mean) + 1; k <= most; ++k) {
    const auto count = static_cast<double>(k);
    if (count - mean - count * std::log(count / mean) <= std::log(rate)) return k;
  }
  return most + 1;
}

}  // namespace

std::size_t LatticeDesign::equal_pairs(std::size_t pairs) const {
  std::size_t k = 1;
  while (k <= pairs && log_rate(pairs, k, most_likely) > std::log(share)) ++k;
  return k;
}

std::vector<StreamLattice> stream_lattices(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const RandomnessContract& contract = sampler.randomness;
  const std::uint64_t seed = mixed(input.seed, 2) & ~std::uint64_t{15};
  const std::uint64_t offset = mixed(input.seed, 3) & ~std::uint64_t{15};
  const bool samples = contract.samples && sampler.num_samples;
  const std::vector<std::uint64_t> one_seed = {seed}, one_offset = {offset};
  std::vector<StreamLattice> lattices;
  if (!sampler.per_request_seeds) {
    // A sampler with its own generator is compared over calls, whose draws affect the next calls.
    if (contract.outputs) {
      lattices.push_back({"calls, outputs and samples", neighbours(seed, 8), one_offset, 8,
                          samples ? std::size_t{4} : 1, true});
    }
    return lattices;
  }
  if (contract.seeds && contract.offsets) {
    lattices.push_back({"seeds, offsets and samples", neighbours_and_bits(seed, sampler),
                        neighbours(offset, 8), 1, samples ? std::size_t{3} : 1});
  }
  if (contract.offsets && (contract.seeds || samples)) {
    lattices.push_back({"offsets, samples and seeds",
                        contract.seeds ? neighbours(~seed, 8) : one_seed,
                        neighbours_and_bits(offset, sampler), 1, samples ? std::size_t{3} : 1});
  }
  if (contract.outputs && (samples || contract.seeds || contract.offsets)) {
    lattices.push_back({"outputs, samples, offsets and seeds",
                        contract.seeds ? neighbours(seed, 4) : one_seed,
                        contract.offsets ? neighbours(~offset, 4) : one_offset, 4,
                        samples ? std::size_t{4} : 1, true});
  }
  return lattices;
}

std::optional<LatticeDesign> design_lattice(const StreamLattice& lattice, double most_likely,
                                            double false_fail_rate) {
  // Counts the steps of the lattice by their number of pairs. A step and its opposite have the same
  // pairs, so each counts half.
  std::map<std::size_t, double> steps = {{1, 0.5}};
  std::size_t neighbours_in_one_axis = 0;
  for (const std::vector<std::uint64_t>& axis : axes_of(lattice)) {
    std::map<std::size_t, double> joint;
    for (const auto& [difference, pairs] : differences(axis)) {
      for (const auto& [before, count] : steps) joint[before * pairs] += count;
    }
    steps = std::move(joint);
    if (axis.size() > 1) {
      neighbours_in_one_axis = lattice.size() / axis.size() * (axis.size() - 1);
    }
  }
  steps[lattice.size()] -= 0.5;  // the zero step
  double number = 0;
  for (const auto& [pairs, count] : steps) number += count;

  LatticeDesign design;
  design.most_likely = most_likely;
  design.share = false_fail_rate / 2 / std::max(number, 1.0);
  for (const auto& [pairs, count] : steps) {
    design.null_rate += count * std::exp(log_rate(pairs, design.equal_pairs(pairs), most_likely));
  }
  const auto size = static_cast<double>(lattice.size());
  const double mean = size * (size - 1) / 2 * most_likely;
  design.repeats = repeats_of(mean, false_fail_rate / 2, lattice.size() - 1);
  if (design.repeats < lattice.size()) design.null_rate += false_fail_rate / 2;
  if (design.equal_pairs(neighbours_in_one_axis) > neighbours_in_one_axis) return std::nullopt;
  return design;
}

std::string shared_in_lattice(const StreamLattice& lattice, const LatticeDesign& design,
                              const std::vector<std::int32_t>& tokens) {
  std::map<std::int32_t, std::vector<std::size_t>> places;  // by token
  for (std::size_t at = 0; at < tokens.size(); ++at) places[tokens[at]].push_back(at);

  const Axes axes = axes_of(lattice);
  std::array<std::map<std::uint64_t, std::size_t>, 4> pairs_of_axis;
  std::transform(axes.begin(), axes.end(), pairs_of_axis.begin(), differences);
  std::map<Step, std::size_t> equal;
  for (const auto& [token, at] : places) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        Step from = place_of(lattice, at[j]), to = place_of(lattice, at[i]);
        if (to < from) std::swap(from, to);
        Step step;
        std::size_t pairs = 1;
        for (std::size_t axis = 0; axis < step.size(); ++axis) {
          step[axis] = to[axis] - from[axis];
          pairs *= pairs_of_axis[axis].at(step[axis]);
        }
        const std::size_t count = ++equal[step];
        if (count < design.equal_pairs(pairs)) continue;
        return fmt::format(
            "{} of the {} pairs of draws that are ({}) apart have equal tokens, as "
            "token {} of {} and of {}",
            count, pairs, text_of_step(step), token, text_of(from), text_of(to));
      }
    }
  }
  const std::size_t repeats = tokens.size() - places.size();
  if (repeats < design.repeats) return {};
  return fmt::format("{} of {} tokens occur before, of {}", repeats, tokens.size(), lattice.name);
}

}  // namespace fairdraw::harness
