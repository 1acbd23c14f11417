#include "suites/gate/run/shards.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fairdraw::suites {
namespace {

struct TableRow {
  std::string_view check;
  std::uint64_t vocab;
  double seconds;
};

constexpr TableRow kTable[] = {
#define FAIRDRAW_CASE_SECONDS(check, vocab, seconds) {check, vocab, seconds},
#include "suites/gate/cases/case_seconds.inc"
};
constexpr double kUnknown = 0.1;  // seconds of an unknown case; the median of the table is 0.03

double octaves_between(std::uint64_t a, std::uint64_t b) {
  return std::abs(std::log2(static_cast<double>(std::max<std::uint64_t>(a, 1))) -
                  std::log2(static_cast<double>(std::max<std::uint64_t>(b, 1))));
}

double usable(double seconds) { return std::isfinite(seconds) && seconds > 0 ? seconds : 0; }

}  // namespace

double table_seconds(std::string_view check, std::uint64_t vocab) {
  double nearest = std::numeric_limits<double>::infinity();
  double seconds = kUnknown;
  for (const TableRow& row : kTable) {
    if (row.check != check) continue;
    const double distance = octaves_between(row.vocab, vocab);
    if (distance >= nearest) continue;
    nearest = distance;
    seconds = row.seconds;
  }
  return seconds;
}

CaseTimes::CaseTimes(const harness::RunRecord& earlier) {
  double measured = 0, table = 0;
  for (const harness::CaseRecord& one : earlier.cases) {
    measured_[{one.id, one.sampler}] = {usable(one.seconds), one.draws};
    measured += usable(one.seconds);
    table += table_seconds(one.check, one.vocab);
  }
  if (measured > 0 && table > 0) scale_ = measured / table;
}

double CaseTimes::seconds(const Case& entry, const std::string& sampler,
                          std::uint64_t usual_draws) const {
  const bool scales = is_statistical(entry.check) && usual_draws > 0;
  const auto times_draws = [&](double seconds, std::uint64_t draws) {
    const double factor =
        scales && draws > 0 ? static_cast<double>(entry.draws) / static_cast<double>(draws) : 1;
    return seconds * factor;
  };
  const auto known = measured_.find({entry.id, sampler});
  if (known != measured_.end()) return times_draws(known->second.seconds, known->second.draws);
  return times_draws(
      scale_ * table_seconds(to_string(entry.check), static_cast<std::uint64_t>(entry.input.vocab)),
      usual_draws);
}

std::vector<std::uint32_t> balanced_shards(std::span<const double> seconds, std::uint32_t shards) {
  std::vector<std::size_t> longest_first(seconds.size());
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::ranges::stable_sort(longest_first, [&](std::size_t a, std::size_t b) {
    return usable(seconds[a]) > usable(seconds[b]);
  });
  std::vector<double> load(shards, 0);
  std::vector<std::size_t> cases(shards, 0);
  std::vector<std::uint32_t> shard_of(seconds.size(), 0);
  for (const std::size_t i : longest_first) {
    std::uint32_t least = 0;
    for (std::uint32_t shard = 1; shard < shards; ++shard) {
      // Ties are broken by the number of cases, so that cases of zero time are spread, too.
      if (std::pair(load[shard], cases[shard]) < std::pair(load[least], cases[least])) {
        least = shard;
      }
    }
    load[least] += usable(seconds[i]);
    ++cases[least];
    shard_of[i] = least;
  }
  return shard_of;
}

}  // namespace fairdraw::suites
