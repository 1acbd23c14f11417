// Counts outcomes of drafted tokens in tables with expected probabilities. The files
// chain_distribution.cpp, speculation_distribution.cpp and tree_distribution.cpp use these tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

using Distribution = std::vector<double>;

/// Returns the probabilities of the survivors of a row, which are weights over their total.
Distribution distribution_of_row(const reference::IntegerRow& model);

/// A named table of cells, with their probabilities and counts. A cell of probability 0 must stay
/// empty.
class Table {
 public:
  Table(std::string name, std::size_t width)
      : name_(std::move(name)), width_(width), probability_(width * width + width + 1, 0) {}

  std::size_t single(std::size_t x) const { return width_ * width_ + x; }
  std::size_t pair(std::size_t x, std::size_t y) const { return x * width_ + y; }
  std::size_t rest() const { return probability_.size() - 1; }

  void expect(std::size_t cell, double probability) { probability_[cell] += probability; }
  void expect_rest();  ///< adds a cell with the remaining probability
  void count(std::size_t cell) {
    if (counts_.empty()) counts_.resize(probability_.size());
    ++counts_[cell];
  }

  const std::string& name() const { return name_; }
  std::size_t width() const { return width_; }
  std::uint64_t counted(std::size_t cell) const { return counts_.empty() ? 0 : counts_[cell]; }
  std::uint32_t cells() const;  ///< number of cells of positive probability
  void judge(double level, CheckOutcome& outcome) const;

 private:
  std::string name_of(std::size_t cell) const;

  std::string name_;
  std::size_t width_;
  Distribution probability_;
  std::vector<std::uint64_t> counts_;
};

/// The outcomes at one position: the accepted, the rejected and the recovered token. Differences
/// are computed in integers, as P_x Zq - Q_x Zp, so that equal probabilities have a difference of
/// exactly 0.
struct Position {
  Position(const reference::IntegerRow& target, const reference::IntegerRow& draft);

  Distribution accepted, rejected, recovered;
  double acceptance = 0;
};

}  // namespace fairdraw::harness
