#include "harness/run/checks/statistical/stream_probes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace fairdraw::harness {
namespace {

double choose(double n, double k) {
  double value = 1;
  for (double i = 0; i < k; ++i) value *= (n - i) / (i + 1);
  return std::max(value, 0.0);
}

// Returns the smallest size in [from, to] for which rate(size) is at most `share`.
template <class Rate>
std::optional<std::size_t> smallest(std::size_t from, std::size_t to, double share,
                                    const Rate& rate) {
  for (std::size_t size = from; size <= to; ++size) {
    if (rate(static_cast<double>(size)) <= share) return size;
  }
  return std::nullopt;
}

// Counts the values within 1 of `value`, modulo vocab (which must be above 3, because otherwise
// nothing is proof).
std::size_t count_near(const std::map<std::int64_t, std::size_t>& counts, std::int64_t value,
                       std::int64_t vocab) {
  std::size_t sum = 0;
  for (const std::int64_t near : {value, (value + 1) % vocab, (value + vocab - 1) % vocab}) {
    const auto found = counts.find(near);
    if (found != counts.end()) sum += found->second;
  }
  return sum;
}

}  // namespace

std::optional<ProbeDesign> design_probes(std::size_t sequences, std::size_t length,
                                         double most_likely, double false_fail_rate) {
  const auto s = static_cast<double>(sequences);
  const auto n = static_cast<double>(length);
  const double share = false_fail_rate / 4;
  const auto grams = [&](double g) {
    return choose(s * (n - g + 1), 2) * std::pow(most_likely, g);
  };
  // Returns a bound on the probability that k pairs have one difference or one exclusive or.
  const auto equal = [&](double k) {
    return k * std::pow(3 * most_likely, k - 1) + std::pow(most_likely, k - 1);
  };
  const auto steps = [&](double k) { return choose(s * (n - 1), k) * equal(k); };
  const auto differences = [&](double k) { return choose(s, 2) * choose(n, k) * equal(k); };
  const auto repeats = [&](double k) {
    return s * choose(n * (n - 1) / 2, k) * std::pow(most_likely, k);
  };
  const auto gram = smallest(3, length, share, grams);
  const auto within = smallest(3, 2 * (length - 1), share, steps);
  const auto across = smallest(3, length, share, differences);
  const auto again = smallest(2, length - 1, share, repeats);
  if (!gram || !within || !across || !again) return std::nullopt;
  return ProbeDesign{*gram, *within, *across, *again,
                     grams(static_cast<double>(*gram)) + steps(static_cast<double>(*within)) +
                         differences(static_cast<double>(*across)) +
                         repeats(static_cast<double>(*again))};
}

std::string StreamProbes::add(const std::string& name, std::span<const std::int32_t> tokens) {
  const Sequence sequence{name, {tokens.begin(), tokens.end()}};
  std::string wrong = repeated_gram(sequence);
  if (wrong.empty()) wrong = repeated_step(sequence);
  if (wrong.empty()) wrong = repeated_tokens(sequence);
  for (const Sequence& other : sequences_) {
    if (wrong.empty()) wrong = repeated_difference(other, sequence);
  }
  sequences_.push_back(sequence);
  return wrong;
}

std::string StreamProbes::repeated_gram(const Sequence& sequence) {
  for (std::size_t i = 0; i + design_.gram <= sequence.tokens.size(); ++i) {
    const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<std::int32_t> gram(first, first + static_cast<std::ptrdiff_t>(design_.gram));
    const std::string place = fmt::format("{} at {}", sequence.name, i);
    const auto [entry, is_new] = grams_.emplace(gram, place);
    if (!is_new) {
      return fmt::format("tokens {} come twice: {}, and {}", fmt::join(gram, " "), entry->second,
                         place);
    }
  }
  return {};
}

std::string StreamProbes::repeated_step(const Sequence& sequence) {
  for (std::size_t i = 0; i + 1 < sequence.tokens.size(); ++i) {
    const std::int64_t before = sequence.tokens[i], after = sequence.tokens[i + 1];
    const std::int64_t step = (after - before + vocab_) % vocab_;
    ++steps_[step];
    const std::size_t equal = count_near(steps_, step, vocab_);
    if (equal >= design_.within) {
      return fmt::format("{} steps from one token to the next are {} or next to it, up to {} at {}",
                         equal, step, sequence.name, i);
    }
    const std::size_t xors = ++xors_[before ^ after];
    if (xors >= design_.within) {
      return fmt::format(
          "{} pairs of consecutive tokens have the exclusive or {:#x}, up to {} at {}", xors,
          before ^ after, sequence.name, i);
    }
  }
  return {};
}

std::string StreamProbes::repeated_tokens(const Sequence& sequence) const {
  const std::set<std::int32_t> different(sequence.tokens.begin(), sequence.tokens.end());
  const std::size_t repeats = sequence.tokens.size() - different.size();
  if (repeats < design_.again) return {};
  return fmt::format("{} of the tokens {} of {} occur before", repeats,
                     fmt::join(sequence.tokens, " "), sequence.name);
}

std::string StreamProbes::repeated_difference(const Sequence& one, const Sequence& other) const {
  std::map<std::int64_t, std::size_t> differences, xors;
  for (std::size_t i = 0; i < std::min(one.tokens.size(), other.tokens.size()); ++i) {
    const std::int64_t x = one.tokens[i], y = other.tokens[i];
    const std::int64_t difference = (y - x + vocab_) % vocab_;
    ++differences[difference];
    const std::size_t equal = count_near(differences, difference, vocab_);
    if (equal >= design_.across) {
      return fmt::format("{} tokens of {} are those of {} plus {} or next to it", equal, other.name,
                         one.name, difference);
    }
    const std::size_t equal_xors = ++xors[x ^ y];
    if (equal_xors >= design_.across) {
      return fmt::format("{} tokens of {} are those of {} with the exclusive or {:#x}", equal_xors,
                         other.name, one.name, x ^ y);
    }
  }
  return {};
}

}  // namespace fairdraw::harness
