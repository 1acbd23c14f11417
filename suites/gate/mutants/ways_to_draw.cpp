#include "suites/gate/mutants/ways_to_draw.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "harness/run/calls/random_words.h"

namespace fairdraw::suites {
namespace {

// Returns a uniform number in (0, 1) with 53 bits.
double uniform(std::uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53; }

// The tokens that can be drawn, in some order, with the prefix sums of their probabilities.
struct Line {
  std::vector<std::size_t> id;
  std::vector<double> probability, sum;

  std::size_t size() const { return id.size(); }
  double mass(std::size_t first, std::size_t end) const {
    return sum[end - 1] - (first == 0 ? 0 : sum[first - 1]);
  }
  // Returns the index at the fraction `u` of the mass in [first, end).
  std::size_t search(double u, std::size_t first, std::size_t end) const {
    const double before = first == 0 ? 0 : sum[first - 1];
    const double position = before + u * mass(first, end);
    const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(first);
    const auto last = sum.begin() + static_cast<std::ptrdiff_t>(end - 1);
    return static_cast<std::size_t>(std::upper_bound(begin, last, position) - sum.begin());
  }
  std::size_t search(double u) const { return search(u, 0, size()); }
};

Line line_in_order(const std::vector<double>& probability, std::vector<std::size_t> ids) {
  Line line;
  std::erase_if(ids, [&](std::size_t id) { return probability[id] <= 0; });
  line.id = std::move(ids);
  double sum = 0;
  for (const std::size_t id : line.id) {
    line.probability.push_back(probability[id]);
    line.sum.push_back(sum += probability[id]);
  }
  return line;
}

std::vector<std::size_t> ids_of(const std::vector<double>& probability) {
  std::vector<std::size_t> ids(probability.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  return ids;
}

Line line_of(const std::vector<double>& probability) {
  return line_in_order(probability, ids_of(probability));
}

Line falling_line(const std::vector<double>& probability) {
  std::vector<std::size_t> ids = ids_of(probability);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::size_t a, std::size_t b) { return probability[a] > probability[b]; });
  return line_in_order(probability, std::move(ids));
}

DrawToken search_of(Line line) {
  return [line = std::move(line)](const Words& word) {
    return line.id[line.search(uniform(word(0)))];
  };
}

// --- Races -------------------------------------------------------------------------------------

// The tokens of a line in blocks; there are about as many blocks as tokens in a block.
struct Blocks {
  explicit Blocks(const std::vector<double>& probability) : line(line_of(probability)) {
    const auto size = static_cast<std::size_t>(std::sqrt(static_cast<double>(line.size()))) + 1;
    for (std::size_t first = 0; first < line.size(); first += size) {
      const std::size_t end = std::min(first + size, line.size());
      begin.push_back(first);
      masses.push_back(line.mass(first, end));
      inside.emplace_back(line.probability.begin() + static_cast<std::ptrdiff_t>(first),
                          line.probability.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }

  Line line;
  std::vector<std::size_t> begin;
  std::vector<double> masses;
  std::vector<std::vector<double>> inside;
};

// Returns a drawing function in which first the blocks race by their mass, and then the tokens of
// the winning block. The race takes its random words from number `next` on.
template <class Race>
DrawToken race_of_blocks(const RowToDraw& row, const Race& race) {
  return [blocks = Blocks(row.kept), race](const Words& word) {
    std::uint32_t next = 0;
    const std::size_t block = race(blocks.masses, word, next);
    return blocks.line.id[blocks.begin[block] + race(blocks.inside[block], word, next)];
  };
}

template <class Score>
std::size_t best_of(const std::vector<double>& masses, const Score& score) {
  std::size_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < masses.size(); ++i) {
    if (masses[i] <= 0) continue;
    const double one = score(masses[i]);
    if (one <= most) continue;
    most = one;
    best = i;
  }
  return best;
}

// --- Walker's table ------------------------------------------------------------------------------

class AliasTable {
 public:
  explicit AliasTable(const std::vector<double>& probability)
      : line_(line_of(probability)), part_(line_.size()), other_(line_.size()) {
    const auto n = static_cast<double>(line_.size());
    std::vector<std::size_t> small, large;
    for (std::size_t i = 0; i < line_.size(); ++i) {
      part_[i] = line_.probability[i] / line_.sum.back() * n;
      (part_[i] < 1 ? small : large).push_back(i);
    }
    while (!small.empty() && !large.empty()) {
      const std::size_t low = small.back(), high = large.back();
      small.pop_back();
      other_[low] = high;
      part_[high] -= 1 - part_[low];
      if (part_[high] >= 1) continue;
      large.pop_back();
      small.push_back(high);
    }
    // columns that rounding has left over have probability 1
    for (const std::size_t i : small) part_[i] = 1;
    for (const std::size_t i : large) part_[i] = 1;
  }

  std::size_t token(std::uint64_t of_column, std::uint64_t of_part) const {
    const auto n = static_cast<double>(line_.size());
    const auto at = static_cast<std::size_t>(uniform(of_column) * n);
    const std::size_t column = std::min(at, line_.size() - 1);
    return line_.id[uniform(of_part) < part_[column] ? column : other_[column]];
  }

 private:
  Line line_;
  std::vector<double> part_;        // [column]; share of the column's own token
  std::vector<std::size_t> other_;  // [column]; token that gets the rest of the column
};

constexpr std::uint32_t kTries = 64;

}  // namespace

DrawToken gumbel_race(const RowToDraw& row) {
  return race_of_blocks(
      row, [](const std::vector<double>& masses, const Words& word, std::uint32_t& next) {
        return best_of(masses, [&](double mass) {
          return std::log(mass) - std::log(-std::log(uniform(word(next++))));
        });
      });
}

DrawToken exponential_clocks(const RowToDraw& row) {
  return race_of_blocks(
      row, [](const std::vector<double>& masses, const Words& word, std::uint32_t& next) {
        return best_of(masses, [&](double mass) { return std::log(uniform(word(next++))) / mass; });
      });
}

DrawToken alias_table(const RowToDraw& row) {
  return
      [table = AliasTable(row.kept)](const Words& word) { return table.token(word(0), word(1)); };
}

DrawToken two_pivots(const RowToDraw& row) {
  const Line line = falling_line(row.whole);
  double least = 1;  // smallest probability of a kept token
  for (std::size_t id = 0; id < row.kept.size(); ++id) {
    if (row.kept[id] > 0) least = std::min(least, row.whole[id]);
  }
  return [line, least, kept = row.kept](const Words& word) {
    double pivot = 0;
    for (std::uint32_t attempt = 0;; ++attempt) {
      const auto end = static_cast<std::size_t>(
          std::partition_point(line.probability.begin(), line.probability.end(),
                               [pivot](double p) { return p >= pivot; }) -
          line.probability.begin());
      const std::size_t at = line.search(uniform(word(attempt)), 0, end);
      if (kept[line.id[at]] > 0) return line.id[at];
      const double low = line.probability[at], middle = (low + line.probability.front()) / 2;
      pivot = middle <= least ? middle : low;
    }
  };
}

DrawToken propose_and_accept(const RowToDraw& row) {
  return
      [whole = line_of(row.whole), kept = line_of(row.kept), stays = row.kept](const Words& word) {
        for (std::uint32_t attempt = 0; attempt < kTries; ++attempt) {
          const std::size_t id = whole.id[whole.search(uniform(word(attempt)))];
          if (stays[id] > 0) return id;
        }
        return kept.id[kept.search(uniform(word(kTries)))];
      };
}

DrawToken alias_then_filters(const RowToDraw& row) {
  return [whole = AliasTable(row.whole), kept = AliasTable(row.kept),
          stays = row.kept](const Words& word) {
    for (std::uint32_t attempt = 0; attempt < kTries; ++attempt) {
      const std::size_t id = whole.token(word(2 * attempt), word(2 * attempt + 1));
      if (stays[id] > 0) return id;
    }
    return kept.token(word(2 * kTries), word(2 * kTries + 1));
  };
}

DrawToken sorted_search(const RowToDraw& row) { return search_of(falling_line(row.kept)); }

DrawToken from_the_top(const RowToDraw& row) {
  std::vector<std::size_t> ids = ids_of(row.kept);
  std::reverse(ids.begin(), ids.end());
  return search_of(line_in_order(row.kept, std::move(ids)));
}

DrawToken in_hashed_order(const RowToDraw& row) {
  constexpr std::uint64_t kSalt = 0x6f72646572;
  std::vector<std::size_t> ids = ids_of(row.kept);
  std::stable_sort(ids.begin(), ids.end(), [](std::size_t a, std::size_t b) {
    return harness::mixed(kSalt, a) < harness::mixed(kSalt, b);
  });
  return search_of(line_in_order(row.kept, std::move(ids)));
}

DrawToken reservoir(const RowToDraw& row) {
  return race_of_blocks(
      row, [](const std::vector<double>& masses, const Words& word, std::uint32_t& next) {
        std::size_t kept = 0;
        double sum = 0;
        for (std::size_t i = 0; i < masses.size(); ++i) {
          sum += masses[i];
          if (uniform(word(next++)) * sum < masses[i]) kept = i;
        }
        return kept;
      });
}

DrawToken envelopes(const RowToDraw& row) {
  struct Group {
    double envelope = 0;
    std::vector<std::size_t> ids;
  };
  std::map<int, Group> by_exponent;
  for (std::size_t id = 0; id < row.kept.size(); ++id) {
    if (row.kept[id] <= 0) continue;
    const int exponent = std::ilogb(row.kept[id]) + 1;
    Group& group = by_exponent[exponent];
    group.envelope = std::ldexp(1.0, exponent);
    group.ids.push_back(id);
  }
  std::vector<Group> groups;
  std::vector<double> sum;
  for (auto& [exponent, group] : by_exponent) {
    const double all = group.envelope * static_cast<double>(group.ids.size());
    sum.push_back((sum.empty() ? 0 : sum.back()) + all);
    groups.push_back(std::move(group));
  }
  return [groups, sum, kept = row.kept](const Words& word) {
    for (std::uint32_t next = 0;; next += 3) {
      const auto found =
          std::upper_bound(sum.begin(), sum.end() - 1, uniform(word(next)) * sum.back());
      const Group& group = groups[static_cast<std::size_t>(found - sum.begin())];
      const auto size = static_cast<double>(group.ids.size());
      const auto at = static_cast<std::size_t>(uniform(word(next + 1)) * size);
      const std::size_t id = group.ids[std::min(at, group.ids.size() - 1)];
      if (uniform(word(next + 2)) * group.envelope < kept[id]) return id;
    }
  };
}

DrawToken segments(const RowToDraw& row) {
  constexpr std::size_t kSegment = 1024;
  const Line line = line_of(row.kept);
  std::vector<std::size_t> begin = {0};  // first indices of the segments of ids
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line.id[i] / kSegment != line.id[i - 1] / kSegment) begin.push_back(i);
  }
  std::vector<double> sum;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    sum.push_back(line.sum[(i + 1 < begin.size() ? begin[i + 1] : line.size()) - 1]);
  }
  begin.push_back(line.size());
  return [line, begin, sum](const Words& word) {
    const auto found = std::upper_bound(sum.begin(), sum.end() - 1, uniform(word(0)) * sum.back());
    const auto segment = static_cast<std::size_t>(found - sum.begin());
    return line.id[line.search(uniform(word(1)), begin[segment], begin[segment + 1])];
  };
}

DrawToken bisection(const RowToDraw& row) {
  return [line = line_of(row.kept)](const Words& word) {
    std::size_t first = 0, end = line.size();
    for (std::uint32_t next = 0; end - first > 1; ++next) {
      const std::size_t middle = first + (end - first) / 2;
      const bool left = uniform(word(next)) * line.mass(first, end) < line.mass(first, middle);
      (left ? end : first) = middle;
    }
    return line.id[first];
  };
}

DrawToken bit_by_bit(const RowToDraw& row) {
  return [line = line_of(row.kept)](const Words& word) {
    double first = 0, size = line.sum.back();
    for (int bit = 63; bit >= 4; --bit) {
      const auto low = std::upper_bound(line.sum.begin(), line.sum.end() - 1, first);
      if (first + size <= *low) return line.id[static_cast<std::size_t>(low - line.sum.begin())];
      size /= 2;
      if (((word(0) >> bit) & 1U) != 0) first += size;
    }
    const auto found = std::upper_bound(line.sum.begin(), line.sum.end() - 1, first);
    return line.id[static_cast<std::size_t>(found - line.sum.begin())];
  };
}

DrawToken in_log_space(const RowToDraw& row) {
  const Line line = line_of(row.kept);
  std::vector<double> sum;
  for (const double p : line.probability) {
    const double one = std::log(p), before = sum.empty() ? one : sum.back();
    const double larger = std::max(before, one), smaller = std::min(before, one);
    sum.push_back(sum.empty() ? one : larger + std::log1p(std::exp(smaller - larger)));
  }
  return [line, sum](const Words& word) {
    const double position = std::log(uniform(word(0))) + sum.back();
    const auto found = std::upper_bound(sum.begin(), sum.end() - 1, position);
    return line.id[static_cast<std::size_t>(found - sum.begin())];
  };
}

DrawToken head_and_tail(const RowToDraw& row) {
  return [line = falling_line(row.kept)](const Words& word) {
    const std::size_t head = std::min<std::size_t>(16, line.size());
    const bool in_head = uniform(word(0)) * line.sum.back() < line.sum[head - 1];
    const double u = uniform(word(1));
    return line.id[in_head || head == line.size() ? line.search(u, 0, head)
                                                  : line.search(u, head, line.size())];
  };
}

}  // namespace fairdraw::suites
