#include "harness/run/checks/speculation/emitted_sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kClasses = 3;  // number of classes of ids in the table of three tokens
// The indices of the tables of emitted sequences.
constexpr std::size_t kFirstEmitted = 0, kSequence = 1, kLater = 2, kWhole = 3, kSecondEmitted = 4,
                      kThirdEmitted = 5, kNeighbourChains = 6;

// Returns 53 bits as a number in [0, 1).
double uniform(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

std::size_t draw(const Distribution& row, double u) {
  std::size_t last = 0;  // the last token, which is used if rounding leaves u beyond the sum
  for (std::size_t id = 0; id < row.size(); ++id) {
    if (row[id] == 0) continue;
    last = id;
    if (u < row[id]) return id;
    u -= row[id];
  }
  return last;
}

// Returns a point in the token's interval, at the fraction `u` of its length.
double place(const Distribution& row, std::size_t token, double u) {
  double begin = 0;
  for (std::size_t id = 0; id < token; ++id) begin += row[id];
  return begin + u * row[token];
}

std::size_t pair_of_classes(const Table& table, const std::array<std::size_t, 3>& tokens) {
  return table.pair(tokens[0] % kClasses, tokens[1] % kClasses * kClasses + tokens[2] % kClasses);
}

}  // namespace

EmittedSequences::EmittedSequences(const std::string& suffix, std::size_t width,
                                   const RowAfter& row_after)
    : width_(width), first_(row_after({})), second_(width), third_(width * width) {
  for (const char* name :
       {"first", "sequence", "later", "whole", "second_emitted", "third_emitted", "neighbours"}) {
    const bool of_classes = tables_.size() == kWhole;
    tables_.emplace_back(name + suffix, of_classes ? kClasses * kClasses : width);
  }
  const auto token = [](std::size_t id) { return static_cast<std::int32_t>(id); };
  for (std::size_t x = 0; x < width; ++x) {
    for (const std::size_t number : {kSecondEmitted, kThirdEmitted}) {
      tables_[number].expect(tables_[number].single(x), 1.0 / static_cast<double>(width));
    }
    if (first_[x] == 0) continue;
    tables_[kFirstEmitted].expect(tables_[kFirstEmitted].single(x), first_[x]);
    for (std::size_t y = 0; y < width; ++y) {
      tables_[kNeighbourChains].expect(tables_[kNeighbourChains].pair(x, y), first_[x] * first_[y]);
    }
    const std::int32_t one[] = {token(x)};
    second_[x] = row_after(one);
    for (std::size_t y = 0; y < width; ++y) {
      const double two_tokens = first_[x] * second_[x][y];
      if (two_tokens == 0) continue;
      tables_[kSequence].expect(tables_[kSequence].pair(x, y), two_tokens);
      const std::int32_t two[] = {token(x), token(y)};
      Distribution& row = third_[x * width + y] = row_after(two);
      for (std::size_t z = 0; z < width; ++z) {
        tables_[kLater].expect(tables_[kLater].pair(y, z), two_tokens * row[z]);
        tables_[kWhole].expect(pair_of_classes(tables_[kWhole], {x, y, z}), two_tokens * row[z]);
      }
    }
  }
}

const Distribution& EmittedSequences::row_after(std::span<const std::size_t> prefix) const {
  return prefix.empty()       ? first_
         : prefix.size() == 1 ? second_[prefix[0]]
                              : third_[prefix[0] * width_ + prefix[1]];
}

void EmittedSequences::count(std::span<const std::int32_t> emitted, std::uint64_t word) {
  std::array<std::size_t, kLength> tokens{};
  std::size_t known = 0;  // number of tokens before the first impossible one
  for (std::size_t i = 0; i < kLength; ++i) {
    const Distribution& row = row_after(std::span(tokens).first(i));
    if (row.empty()) break;
    const double u = uniform(mixed(word, i));
    if (i >= emitted.size()) {
      tokens[i] = draw(row, u);
    } else {
      tokens[i] = static_cast<std::size_t>(emitted[i]);
      if (row[tokens[i]] == 0 && impossible_.empty()) {
        impossible_ = fmt::format("token {} was emitted in place {}, where it has probability 0",
                                  tokens[i], i + 1);
      }
      if (i > 0) {
        Table& table = tables_[i == 1 ? kSecondEmitted : kThirdEmitted];
        const auto bin =
            static_cast<std::size_t>(place(row, tokens[i], u) * static_cast<double>(width_));
        table.count(table.single(std::min(bin, width_ - 1)));
      }
    }
    ++known;
  }
  tables_[kFirstEmitted].count(tables_[kFirstEmitted].single(tokens[0]));
  if (known > 1) tables_[kSequence].count(tables_[kSequence].pair(tokens[0], tokens[1]));
  if (known > 2) {
    tables_[kLater].count(tables_[kLater].pair(tokens[1], tokens[2]));
    tables_[kWhole].count(pair_of_classes(tables_[kWhole], tokens));
  }
  if (before_ >= 0) {
    Table& table = tables_[kNeighbourChains];
    table.count(table.pair(static_cast<std::size_t>(before_), tokens[0]));
    before_ = -1;
  } else {
    before_ = static_cast<std::int64_t>(tokens[0]);
  }
}

namespace {

// The smallest denominator s + 1 - r_1 for which float32 determines h_1. In float32, r_1 and the
// sum s are known to 2^-22 in total, so h_1 = s / (s + 1 - r_1) is known to 2^-22 over the
// denominator. From this denominator on the error is at most 2^-10, which changes the count of a
// cell of probability p in n draws by 2^-10 sqrt(p n) standard errors: less than one for n up to
// 2^20. For smaller denominators h_1 is not known.
constexpr double kDecided = 0x1p-12;

}  // namespace

BlockAcceptance::BlockAcceptance(const std::string& name, const Distribution& p0,
                                 const RowAfter& row_after, const Distribution& q0,
                                 const Distribution& q1)
    : table_(name, std::max<std::size_t>(p0.size(), EmittedSequences::kLength)),
      undecided_(q0.size(), 0) {
  for (std::size_t x = 0; x < q0.size(); ++x) {
    if (q0[x] == 0) continue;
    const double r1 = std::min(1.0, p0[x] / q0[x]);
    const Distribution p1 = r1 > 0 ? row_after(x) : Distribution(q1.size(), 0);
    double left = 0;
    for (std::size_t y = 0; y < q1.size(); ++y) left += std::max(r1 * p1[y] - q1[y], 0.0);
    const double h1 = left > 0 ? left / (left + (1 - r1)) : 0;
    undecided_[x] = left + (1 - r1) < kDecided ? 1 : 0;
    for (std::size_t y = 0; y < q1.size(); ++y) {
      if (q1[y] == 0) continue;
      const double drafted = q0[x] * q1[y], h2 = std::min(1.0, r1 * p1[y] / q1[y]);
      table_.expect(table_.pair(2, x), drafted * h2);
      table_.expect(cell(1, x), drafted * (1 - h2) * h1);
      table_.expect(cell(0, x), drafted * (1 - h2) * (1 - h1));
    }
  }
}

}  // namespace fairdraw::harness
