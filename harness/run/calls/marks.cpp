#include "harness/run/calls/marks.h"

#include <algorithm>

#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

std::int32_t id_of(std::uint64_t seed, std::uint64_t index, std::int64_t ids) {
  return static_cast<std::int32_t>(mixed(seed, index) % static_cast<std::uint64_t>(ids));
}

}  // namespace

const char* to_string(MarkScheme scheme) {
  switch (scheme) {
    case MarkScheme::by_key:
      return "by_key";
    case MarkScheme::by_key_and_seed:
      return "by_key_and_seed";
    case MarkScheme::green_list:
      break;
  }
  return "green_list";
}

std::uint64_t mark_key(std::uint64_t seed, std::uint64_t index) {
  return std::max<std::uint64_t>(mixed(seed, index), 1);
}

std::vector<std::int32_t> new_context(std::uint64_t seed, std::int64_t vocab) {
  // The last id occurs once, so that no context ends with it before.
  std::vector<std::int32_t> ids(kMarkOutput, id_of(seed, 0, vocab));
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::int64_t distance = 1 + id_of(seed, i + 1, vocab - 1);
    ids[i] = static_cast<std::int32_t>((ids.back() + distance) % vocab);
  }
  return ids;
}

std::vector<std::int32_t> repeated_context(std::uint64_t seed, std::int64_t vocab) {
  std::vector<std::int32_t> ids = new_context(seed, vocab);
  std::copy_n(ids.end() - kMarkWindow, kMarkWindow, ids.begin());
  return ids;
}

void mark_rows(MarkScheme scheme, std::uint64_t seed, Request& request) {
  request.mark_scheme = scheme;
  request.mark_window = kMarkWindow;
  for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(request.rows); ++row) {
    request.mark_key.push_back(mark_key(seed, row));
    const std::vector<std::int32_t> ids = new_context(mixed(~seed, row), request.vocab);
    request.mark_output.insert(request.mark_output.end(), ids.begin(), ids.end());
  }
}

void vary_marks(std::uint64_t seed, Request& request) {
  const std::vector<std::int32_t> context = new_context(seed, request.vocab);
  const std::vector<std::int32_t> repeated = repeated_context(seed, request.vocab);
  request.mark_key.clear();
  request.mark_output.clear();
  for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(request.rows); ++row) {
    const std::uint64_t kind = row % 4;
    const std::uint64_t key = mark_key(~seed, kind == 2 ? 0 : row + 1);
    request.mark_key.push_back(kind == 3 ? 0 : key);
    const std::vector<std::int32_t>& ids = kind == 2 ? repeated : context;
    request.mark_output.insert(request.mark_output.end(), ids.begin(), ids.end());
  }
}

}  // namespace fairdraw::harness
