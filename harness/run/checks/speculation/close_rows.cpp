#include "harness/run/checks/speculation/close_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace fairdraw::harness {
namespace {

// Returns the ids by decreasing value; among equal values the lowest id comes first.
std::vector<std::size_t> ranked(std::span<const float> source) {
  std::vector<std::size_t> ids(source.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  std::stable_sort(ids.begin(), ids.end(),
                   [source](std::size_t a, std::size_t b) { return source[a] > source[b]; });
  return ids;
}

// The units of the target's mass and of the draft's mass; `share_rest` distributes the rest, which
// both have in common, to `others`, one unit at a time.
struct Units {
  Units(std::size_t vocab, DType dtype)
      : whole(dtype == DType::bfloat16 ? 256 : 2048), draft(vocab, 0), target(vocab, 0) {}

  std::int64_t of_256(std::int64_t share) const { return share * whole / 256; }
  void share_rest(std::span<const std::size_t> others) {
    std::int64_t rest = whole - std::accumulate(draft.begin(), draft.end(), std::int64_t{0});
    for (std::size_t i = 0; rest > 0; i = (i + 1) % others.size(), --rest) {
      ++draft[others[i]];
      ++target[others[i]];
    }
  }
  CloseRows rows() const {
    CloseRows rows;
    for (std::size_t id = 0; id < draft.size(); ++id) {
      rows.draft.push_back(static_cast<float>(draft[id]) / static_cast<float>(whole));
      rows.target.push_back(static_cast<float>(target[id]) / static_cast<float>(whole));
    }
    return rows;
  }

  std::int64_t whole;
  std::vector<std::int64_t> draft, target;
};

}  // namespace

CloseRows close_ratio(std::span<const float> source, DType dtype) {
  const std::vector<std::size_t> ids = ranked(source);
  Units units(source.size(), dtype);
  units.draft[ids.front()] = units.of_256(177);
  units.target[ids.front()] = units.of_256(177) - 1;
  units.target[ids.back()] = 1;
  units.share_rest(std::span(ids).subspan(1, ids.size() - 2));
  return units.rows();
}

CloseRows close_residual(std::span<const float> source, DType dtype) {
  const std::vector<std::size_t> ids = ranked(source);
  Units units(source.size(), dtype);
  units.draft[ids[0]] = units.of_256(177);
  units.target[ids[0]] = units.of_256(177) - 3;
  units.draft[ids[1]] = units.of_256(65);
  units.target[ids[1]] = units.of_256(65) + 2;
  units.target[ids.back()] = 1;
  units.share_rest(std::span(ids).subspan(2, ids.size() - 3));
  return units.rows();
}

}  // namespace fairdraw::harness
