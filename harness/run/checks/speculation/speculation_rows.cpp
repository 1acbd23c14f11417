#include "harness/run/checks/speculation/speculation_rows.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "harness/inputs/counter_random.h"
#include "harness/inputs/processing_rows.h"
#include "harness/inputs/special_floats.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/calls/row_probabilities.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kMaxDrafts = 4;
constexpr std::int64_t kRowsARequest = 2 * kMaxDrafts + 1;  // rows of the source, each used once

std::vector<float> source_row(const CheckInput& input, std::int64_t number) {
  std::vector<float> row(static_cast<std::size_t>(input.logits->vocab()));
  input.logits->fill(input.first_row + number, row);
  return row;
}

// Returns logits of a draft for this row of the target: the target's own logits, those without half
// of the tokens, or other logits.
std::vector<float> draft_logits(const CheckInput& input, const std::vector<float>& target,
                                std::int64_t number, const CounterRandom& random) {
  std::vector<float> row = target;
  switch (random.below(4, 0)) {
    case 0:
      return row;
    case 1: {
      const std::uint64_t kept = random.below(row.size(), 1);
      for (std::size_t id = 0; id < row.size(); ++id) {
        if (id != kept && random.word(2 + id) % 2 == 0) row[id] = -INFINITY;
      }
      return row;
    }
    default:
      return source_row(input, number);
  }
}

void append(const std::vector<float>& row, std::vector<float>& to) {
  to.insert(to.end(), row.begin(), row.end());
}

// Returns processing for the padding after a request's drafts, which must never be read.
reference::RowProcessing padded_processing() {
  reference::RowProcessing padding;
  padding.repetition_penalty = padding.presence_penalty = kNan;
  padding.output = {-9};
  padding.output_length = -1;
  padding.biases = {{-9, kNan}};
  return padding;
}

// Puts one fault into the last request of the arrays.
void mutate_request(SpeculationRequest& request, std::int64_t drafts, const CounterRandom& random) {
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const auto n = static_cast<std::uint64_t>(drafts);
  const std::int32_t outside[] = {-1, static_cast<std::int32_t>(vocab),
                                  std::numeric_limits<std::int32_t>::max(),
                                  std::numeric_limits<std::int32_t>::min()};
  // These are the rows and draft places of this request, without the padding after it.
  const bool padded = request.row_begins.empty();
  const std::size_t rows = static_cast<std::size_t>(padded ? kMaxDrafts + 1 : drafts + 1);
  const std::size_t first_row = request.target.size() / vocab - rows;
  const std::size_t first_place = request.draft_tokens.size() - (rows - 1);
  switch (random.below(request.processing.empty() ? 6 : 8, 0)) {
    case 0:
      if (n == 0) return;
      request.draft_tokens[first_place + random.below(n, 1)] = outside[random.below(4, 2)];
      return;
    case 1:
      if (request.draft_lengths.empty()) return;
      request.draft_lengths.back() = random.below(2, 1) == 0 ? -1 : static_cast<std::int32_t>(rows);
      return;
    case 2:
    case 3:
      if (n == 0) return;
      if (!request.trees) {
        if (request.draft.empty()) return;
        request.draft[(first_place + random.below(n, 1)) * vocab + random.below(vocab, 2)] = kNan;
        return;
      }
      if (!request.draft.empty() && random.below(2, 3) == 0) {  // so that the root has children
        request.draft[first_row * vocab + random.below(vocab, 2)] = kNan;
        return;
      }
      request.parents[first_place + random.below(n, 1)] =
          random.below(2, 2) == 0 ? -2 : static_cast<std::int32_t>(n);
      return;
    case 4: {
      const auto begin = request.target.begin() +
                         static_cast<std::ptrdiff_t>((first_row + random.below(n + 1, 1)) * vocab);
      std::fill_n(begin, vocab, -INFINITY);
      return;
    }
    case 6:
    case 7: {
      const std::size_t row = first_row + random.below(n + 1, 1);
      // Picks one of all faults except the last, which is not a fault in every dtype.
      const auto fault = static_cast<int>(random.below(kProcessingFaults - 2, 2)) + 1;
      mutate(request.processing[row], static_cast<ProcessingFault>(fault),
             std::span(request.target).subspan(row * vocab, vocab));
      return;
    }
    default:
      request.target[(first_row + random.below(n + 1, 1)) * vocab + random.below(vocab, 2)] =
          random.below(2, 3) == 0 ? kNan : INFINITY;
  }
}

// Allows the largest token in the last row of the bitmask, so that this row has a token.
void allow_largest(const std::vector<float>& target, std::vector<std::uint32_t>& allowed) {
  const auto largest =
      static_cast<std::size_t>(std::max_element(target.begin(), target.end()) - target.begin());
  const auto words = static_cast<std::size_t>(words_for(std::ssize(target)));
  allowed[allowed.size() - words + largest / 32] |= std::uint32_t{1} << largest % 32;
}

// Draws a token from the draft's distribution after `parent`, for the child `node`. Without
// replacement, the tokens of the child's earlier siblings are excluded. Returns -1 if no token is
// left.
std::int32_t sampled_child(const SpeculationRequest& request, const DraftedTokens& taken,
                           std::size_t first, std::size_t node, std::int32_t parent,
                           std::uint64_t word) {
  reference::IntegerRow row =
      taken.draft[static_cast<std::size_t>(std::int64_t{parent} + 1)].model();
  if (row.status != RowStatus::ok) return -1;
  std::vector<std::uint64_t> left;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    left.push_back(row.mask[id] != 0 ? row.speculation_weight[id] : 0);
  }
  for (std::size_t j = 0; j < node; ++j) {
    if (request.siblings == SiblingSampling::with_replacement) break;
    if (request.parents[first + j] == parent) {
      left[static_cast<std::size_t>(request.draft_tokens[first + j])] = 0;
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t weight : left) total += weight;
  if (total == 0) return -1;
  std::uint64_t rest = word % total;
  std::size_t id = 0;
  while (rest >= left[id]) rest -= left[id++];
  return static_cast<std::int32_t>(id);
}

// Draws the drafts of request b in their order, and the parents of a tree. With `strays`, includes
// tokens that a known distribution never gives.
void draft_tokens(SpeculationRequest& request, std::int64_t b, const CounterRandom& random,
                  bool strays) {
  DraftedTokens taken = split_request(request, b);
  const std::size_t first = static_cast<std::size_t>(
      request.row_begins.empty() ? b * kMaxDrafts
                                 : request.row_begins[static_cast<std::size_t>(b)] - b);
  const std::size_t first_row = first + static_cast<std::size_t>(b);
  const std::uint64_t vocab = taken.vocab;
  std::vector<std::size_t> depths;
  for (std::size_t i = 0; i < taken.drafted.size(); ++i) {
    std::size_t depth = i;  // the depth whose draw the draft should equal
    std::size_t row = i;    // number of the target's row at that depth
    if (request.trees) {
      const bool chain = random.below(2, 3 * i) == 0;
      std::int32_t parent = static_cast<std::int32_t>(chain ? i : random.below(i + 1, 3 * i)) - 1;
      // With a known distribution half of the nodes become siblings of the node before them, so
      // that the residual after siblings is tested.
      if (!request.draft.empty() && i > 0 && random.below(2, 200 + i) == 0) {
        parent = request.parents[first + i - 1];
      }
      request.parents[first + i] = parent;
      depth = parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1;
      row = static_cast<std::size_t>(parent) + 1;
      depths.push_back(depth);
    }
    std::int32_t token = -1;
    if (random.below(12, 3 * i + 1) != 0 || (!strays && !request.draft.empty())) {
      if (request.draft_law == DraftLaw::none) {
        token = taken.words[depth].drawn_from(taken.target[row].model());
      } else if (request.trees) {
        token = sampled_child(request, taken, first, i, request.parents[first + i],
                              random.word(300 + i));
      } else {
        const std::size_t s = static_cast<std::size_t>(b);
        token = taken.draft[i].model().token_for(
            random_word(request.seed[s], request.offset[s] + i, Purpose::draft, 0));
      }
    }
    const bool anywhere =
        token < 0 || (request.draft_law == DraftLaw::none && random.below(4, 3 * i + 2) == 0);
    if (anywhere) token = static_cast<std::int32_t>(random.below(vocab, 100 + i));
    request.draft_tokens[first + i] = token;
    if (request.processing.empty()) continue;
    taken.target[i + 1].processing =
        processing_behind(*taken.target[row].processing, std::span(&token, 1));
    request.processing[first_row + i + 1] = *taken.target[i + 1].processing;
  }
  if (!request.trees || request.draft.empty()) return;
  // The draft's row after a leaf must never be read.
  const auto parents = request.parents.begin() + static_cast<std::ptrdiff_t>(first);
  const auto drafts = static_cast<std::ptrdiff_t>(taken.drafted.size());
  for (std::ptrdiff_t row = 0; row <= drafts; ++row) {
    if (std::count(parents, parents + drafts, static_cast<std::int32_t>(row - 1)) > 0) continue;
    const std::size_t at = (first_row + static_cast<std::size_t>(row)) * taken.vocab;
    std::fill_n(request.draft.begin() + static_cast<std::ptrdiff_t>(at), taken.vocab, kNan);
  }
}

}  // namespace

SpeculationRequest make_speculations(const CheckInput& input, std::int64_t first,
                                     std::int64_t count, const SpeculationShape& shape) {
  SpeculationRequest request;
  request.dtype = input.logits->dtype();
  request.max_draft = kMaxDrafts;
  request.max_depth = shape.trees ? kMaxDrafts - 1 : 0;
  request.vocab = input.logits->vocab();
  request.trees = shape.trees;
  request.draft_law = shape.distribution;
  request.siblings = shape.siblings;
  request.tie_rule = input.tie_rule;
  request.filter_order = input.filter_order;
  if (shape.packed) request.row_begins = {0};
  request.history_form.grown = shape.packed;
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const std::vector<float> padding(vocab, kNan);
  // A search for faults makes rows without a sampler.
  const bool faults = input.sampler == nullptr || input.sampler->description().drafts.faults;
  for (std::int64_t b = 0; b < count; ++b) {
    ++request.batch;
    const auto number = static_cast<std::uint64_t>(first + b);
    const CounterRandom random(mixed(~input.seed, number));
    const auto drafts = static_cast<std::int64_t>(random.below(kMaxDrafts + 1, 0));
    const std::int64_t rows = shape.packed ? drafts + 1 : kMaxDrafts + 1;
    for (std::int64_t i = 0; i < rows; ++i) {
      const bool used = i <= drafts;
      const std::int64_t row = (first + b) * kRowsARequest + i;
      const std::vector<float> target = used ? source_row(input, row) : padding;
      append(target, request.target);
      if (!input.processing.empty()) {
        const auto at = static_cast<std::size_t>(first + b) % input.processing.size();
        request.processing.push_back(used ? input.processing[at] : padded_processing());
      }
      if (input.banned_tokens) {
        const CounterRandom bans = random.substream(static_cast<std::uint64_t>(10 + i));
        for (std::int64_t w = 0; w < words_for(request.vocab); ++w) {
          request.allowed.push_back(
              static_cast<std::uint32_t>(bans.word(static_cast<std::uint64_t>(w))) | 1U);
        }
        if (!faults) allow_largest(target, request.allowed);
      }
      const bool drafted = i < drafts;
      // The distributions of a tree are parallel to all rows of the target; those of leaves are
      // spoiled later.
      if (shape.distribution != DraftLaw::none && (shape.trees || i + 1 < rows)) {
        std::vector<float> draft = padding;
        if (drafted) {
          draft = draft_logits(input, target, row + kMaxDrafts + 1,
                               random.substream(static_cast<std::uint64_t>(i)));
          if (shape.distribution == DraftLaw::probs) to_probabilities(draft, 1, request.dtype);
        }
        append(draft, request.draft);
      }
      if (i + 1 == rows) break;
      request.draft_tokens.push_back(drafted ? 0 : -7);
      if (shape.trees) request.parents.push_back(drafted ? -1 : -7);
    }
    if (shape.packed) {
      request.row_begins.push_back(request.row_begins.back() + rows);
    } else {
      request.draft_lengths.push_back(static_cast<std::int32_t>(drafts));
    }
    const std::size_t at = static_cast<std::size_t>(first + b);
    const std::size_t parameters = input.parameters.size();
    request.parameters.push_back(input.parameters[at % parameters]);
    // The draft takes the parameters of another operation in the list, so that filters of all kinds
    // are combined.
    if (shape.distribution == DraftLaw::logits) {
      request.draft_parameters.push_back(input.parameters[(at + at / parameters + 1) % parameters]);
    }
    request.seed.push_back(random.word(1));
    const std::uint64_t offsets[] = {0, 0xffffffffULL - random.below(3, 2), random.word(3)};
    request.offset.push_back(offsets[b % 3]);
    request.active.push_back(random.below(16, 4) != 0 ? 1 : 0);
    draft_tokens(request, b, random.substream(1000), faults);
    if (faults && random.below(8, 5) == 0) {
      mutate_request(request, drafts, random.substream(1001));
    }
  }
  return request;
}

Lack missing_filter(const CheckInput& input) {
  CheckInput filters = input;
  filters.processing.clear();  // speculation with processing needs an ability of its own
  return lack_for(input.sampler->description(),
                  make_request(filters, 0, std::ssize(input.parameters)));
}

void grow_histories(SpeculationRequest& request) {
  for (std::int64_t b = 0; b < request.batch && !request.processing.empty(); ++b) {
    const DraftedTokens taken = split_request(request, b);
    const std::int64_t first = request.row_begins.empty()
                                   ? b * (request.max_draft + 1)
                                   : request.row_begins[static_cast<std::size_t>(b)];
    const auto row = [&](std::int64_t i) -> reference::RowProcessing& {
      return request.processing[static_cast<std::size_t>(first + i)];
    };
    for (std::size_t i = 0; i < taken.drafted.size(); ++i) {
      const auto draft = static_cast<std::int64_t>(i);
      std::int64_t parent = draft - 1;
      if (taken.tree && taken.parents[i] >= -1)
        parent = std::min<std::int64_t>(taken.parents[i], parent);
      row(draft + 1) = processing_behind(row(parent + 1), std::span(&taken.drafted[i], 1));
    }
  }
}

SpeculationRequest pick_requests(const SpeculationRequest& request,
                                 const std::vector<std::int64_t>& picks) {
  SpeculationRequest picked = request;
  picked.batch = 0;
  picked.row_begins = {0};
  for (auto* const values : {&picked.target, &picked.draft}) values->clear();
  for (auto* const values : {&picked.draft_tokens, &picked.draft_lengths, &picked.parents}) {
    values->clear();
  }
  picked.processing.clear();
  picked.allowed.clear();
  picked.active.clear();
  picked.parameters.clear();
  picked.draft_parameters.clear();
  picked.seed.clear();
  picked.offset.clear();
  const auto copy = [](const auto& from, std::int64_t first, std::int64_t size, auto& to) {
    if (from.empty()) return;
    to.insert(to.end(), from.begin() + first, from.begin() + first + size);
  };
  for (const std::int64_t b : picks) {
    const auto at = static_cast<std::size_t>(b);
    const bool packed = !request.row_begins.empty();
    const std::int64_t begin = packed ? request.row_begins[at] : b * (request.max_draft + 1);
    const std::int64_t rows = packed ? request.row_begins[at + 1] - begin : request.max_draft + 1;
    copy(request.target, begin * request.vocab, rows * request.vocab, picked.target);
    copy(request.allowed, begin * words_for(request.vocab), rows * words_for(request.vocab),
         picked.allowed);
    copy(request.processing, begin, rows, picked.processing);
    if (request.trees) {
      copy(request.draft, begin * request.vocab, rows * request.vocab, picked.draft);
    } else {
      copy(request.draft, (begin - b) * request.vocab, (rows - 1) * request.vocab, picked.draft);
    }
    copy(request.draft_tokens, begin - b, rows - 1, picked.draft_tokens);
    copy(request.parents, begin - b, rows - 1, picked.parents);
    copy(request.draft_lengths, b, 1, picked.draft_lengths);
    copy(request.active, b, 1, picked.active);
    copy(request.parameters, b, 1, picked.parameters);
    copy(request.draft_parameters, b, 1, picked.draft_parameters);
    copy(request.seed, b, 1, picked.seed);
    copy(request.offset, b, 1, picked.offset);
    picked.row_begins.push_back(picked.row_begins.back() + rows);
    ++picked.batch;
  }
  return picked;
}

std::vector<std::int32_t> part_of(const std::vector<std::int32_t>& values, std::int64_t b,
                                  std::int64_t width) {
  if (values.empty()) return {};
  const auto first = values.begin() + b * width;
  return {first, first + width};
}

}  // namespace fairdraw::harness
