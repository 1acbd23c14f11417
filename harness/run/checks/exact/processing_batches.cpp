#include "harness/run/checks/exact/processing_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "harness/inputs/narrow_floats.h"
#include "harness/inputs/processing_rows.h"
#include "harness/inputs/processing_steps.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/exact/replay_relations.h"

namespace fairdraw::harness {
namespace {

using reference::RowProcessing;

constexpr WantedResults kAllOfBatches = {
    .statuses = true, .support_size = true, .mask = true, .probs = true};

constexpr const char* kPadding = "batches: rows of padding";

// Other checks judge wider rows one by one, because the effects of a batch do not depend on the
// width.
constexpr std::int64_t kMaxTokensOfBatches = 4096;

std::string wrong_of_padding(const CheckInput& input, const Response& response, std::int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  if (response.tokens[at] != -1) {
    return fmt::format("token {} for a row that is padding", response.tokens[at]);
  }
  const bool has_status = input.exact() && !response.statuses.empty();
  if (!has_status || response.statuses[at] == static_cast<std::int32_t>(RowStatus::inactive)) {
    return {};
  }
  return fmt::format("status {} for a row that is padding, expected {}", response.statuses[at],
                     to_string(RowStatus::inactive));
}

// Returns whether a row of a call with padding is right if the padding rows are left out.
bool is_right_without_padding(const CheckInput& input, const Request& request, std::int64_t row) {
  if (std::ranges::find(request.active, 0) == request.active.end()) return false;
  std::vector<std::int64_t> picks;
  for (std::int64_t i = 0; i < request.rows; ++i) {
    if (request.is_active(i)) picks.push_back(i);
  }
  const Request active = pick_rows(request, picks);
  const std::int64_t at = std::ranges::find(picks, row) - picks.begin();
  const Response response = run_processed(input, active, kAllOfBatches);
  const Request plain = input.exact() ? Request{} : processed_beforehand(active);
  return response.ran() && wrong_in(input, active, plain, response, at).empty();
}

// Compares every row of a batch with the answer of its oracle. Returns the tokens, or an empty list
// if the outcome failed.
std::vector<std::int32_t> expect_right(const CheckInput& input, const std::string& what,
                                       const Request& request, CheckOutcome& outcome) {
  const Response response = run_processed(input, request, kAllOfBatches);
  if (!response.ran()) {
    outcome.fail(fmt::format("{}: {}", what, response.trouble()));
    return {};
  }
  const Request plain = input.exact() ? Request{} : processed_beforehand(request);
  for (std::int64_t row = 0; row < request.rows; ++row) {
    ++outcome.draws;
    std::string wrong;
    if (!request.is_active(row)) {  // mask and probabilities of padding are undefined
      wrong = wrong_of_padding(input, response, row);
    } else if (input.exact() || processed_row(request, row).status == RowStatus::ok) {
      wrong = wrong_in(input, request, plain, response, row);
    }
    if (wrong.empty()) continue;
    outcome.fail(fmt::format("{}: row {} ({}): {}", what, row,
                             describe(request.parameters[static_cast<std::size_t>(row)]), wrong));
    if (!request.is_active(row)) return {};
    if (is_right_without_padding(input, request, row)) {
      outcome.evidence.suspects.push_back({kPadding, "without the padding the row is right"});
    } else {
      note_wrong_step(input, request, row, outcome);
    }
    return {};
  }
  return response.tokens;
}

// --- Counts ------------------------------------------------------------------------------------

// The kinds of rows in which one token occurs `count` times next to the token `other`. With the
// right count, one of the two tokens has the larger logit by at least 3/32; with a count that is
// one less (or 0), the other one has.
enum class Counted { lowered, raised, present, repeated, in_prompt };
constexpr int kKindsOfCounts = 5;

RowProcessing counted(Counted kind, std::int32_t count, std::int32_t token) {
  RowProcessing row;
  std::vector<std::int32_t>& history = kind == Counted::in_prompt ? row.prompt : row.output;
  history.assign(static_cast<std::size_t>(count), token);
  row.output_length = static_cast<std::int32_t>(row.output.size());
  // In these rows the logit of the other token is 1/8, and that of the counted token is 1/4.
  switch (kind) {
    case Counted::lowered:  // 1/4 - n / 2 + (n / 2 - 3/8) = -1/8
      row.frequency_penalty = 0.5F;
      row.biases = {{token, 0.5F * static_cast<float>(count) - 0.375F}};
      break;
    case Counted::raised:  // 1/4 + n / 2 - (n / 2 - 1/8) = 3/8
      row.frequency_penalty = -0.5F;
      row.biases = {{token, 0.125F - 0.5F * static_cast<float>(count)}};
      break;
    case Counted::present:
      row.presence_penalty = 1;
      break;
    case Counted::repeated:
    case Counted::in_prompt:
      row.repetition_penalty = 8;
      break;
  }
  return row;
}

// --- A running batch ---------------------------------------------------------------------------

struct Running {
  std::uint64_t number = 0, offset = 0;
  RowProcessing processing;
};

// The requests of a batch and their events, which depend only on the case and its seed.
class Batch {
 public:
  explicit Batch(const CheckInput& input) : input_(input) {}

  // Changes the batch between two steps: some requests end, some are evicted, and free slots are
  // filled.
  void change() {
    for (std::optional<Running>& slot : slots_) {
      const std::uint64_t fate = slot ? dice(8) : 8;
      if (fate == 0) evicted_.push_back(*slot);
      if (fate <= 1) slot.reset();
    }
    for (std::optional<Running>& slot : slots_) {
      if (slot || dice(3) == 0) continue;
      if (!evicted_.empty() && dice(2) == 0) {
        slot = evicted_.back();
        evicted_.pop_back();
        continue;
      }
      slot = Running{added_, 0, processing_of_request(input_, added_)};
      ++added_;
    }
  }

  std::vector<std::optional<Running>>& slots() { return slots_; }
  std::uint64_t seed_of(const Running& running) const {
    return mixed(~input_.seed, running.number);
  }

 private:
  std::uint64_t dice(std::uint64_t sides) { return mixed(input_.seed + 11, rolled_++) % sides; }

  static constexpr std::size_t kSlots = 8;
  const CheckInput& input_;
  std::uint64_t rolled_ = 0, added_ = 0;
  std::vector<std::optional<Running>> slots_ = std::vector<std::optional<Running>>(kSlots);
  std::vector<Running> evicted_;
};

}  // namespace

void expect_large_counts(const CheckInput& input, CheckOutcome& outcome) {
  const std::int64_t vocab = input.logits->vocab();
  constexpr std::int64_t kMaxTokens = 64;  // because counts are as wide as the vocabulary
  if (outcome.failed() || vocab < 4 || vocab > kMaxTokens) return;
  std::vector<std::int32_t> counts;
  for (const std::int32_t end : {127, 255, 32767, 65535}) {
    for (std::int32_t count = end - 1; count <= end + 2; ++count) counts.push_back(count);
  }
  const auto rows = static_cast<std::int64_t>(counts.size()) * kKindsOfCounts;
  Request request = make_request(input, 0, rows);
  // If the case has temperature 0, all rows are greedy, so that a token says which logit is the
  // largest.
  const auto greedy =
      std::ranges::find(input.parameters, 0.0F, &reference::RowParameters::temperature);
  if (greedy != input.parameters.end()) {
    std::ranges::fill(request.parameters, *greedy);
  }
  request.allowed.clear();
  std::ranges::fill(request.logits, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto token = static_cast<std::int32_t>(
        mixed(input.seed + 9, static_cast<std::uint64_t>(row)) % static_cast<std::uint64_t>(vocab));
    float* const logits = request.logits.data() + row * vocab;
    logits[token] = 0.25F;
    logits[(token + 1) % vocab] = 0.125F;
    request.processing.push_back(counted(static_cast<Counted>(row % kKindsOfCounts),
                                         counts[static_cast<std::size_t>(row / kKindsOfCounts)],
                                         token));
    leave_out(input.sampler->description().lacked_steps, request.processing.back());
  }
  const bool has_dense = input.sampler->description().processing_buffers;
  for (const bool dense : {false, true}) {
    if (dense && !has_dense) break;
    request.history_form = {.prompt_mask = false, .output_counts = dense};
    if (!outcome.failed()) {
      expect_right(input, dense ? "large counts" : "long lists", request, outcome);
    }
  }
  outcome.measures["large_counts"] += static_cast<double>((has_dense ? 2 : 1) * rows);
}

void expect_padding_passed_over(const CheckInput& input, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  if (outcome.failed() || !sampler.active_rows || !sampler.per_request_seeds) return;
  if (!sampler.processing_buffers) return;  // padding has faulty lists
  if (input.logits->vocab() > kMaxTokensOfBatches) return;
  constexpr std::int64_t kRows = kProcessingFaults + 8;
  Request full = make_request(input, 0, kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    full.processing.push_back(processing_for_row(input.seed + 1, row, full.vocab));
  }
  for (const HistoryArrays& form : {HistoryArrays{}, HistoryArrays{.prompt_mask = true},
                                    HistoryArrays{.output_counts = true}}) {
    if (outcome.failed()) return;
    full.history_form = form;
    // Three rows of four are padding, first with every fault, and then with empty lists.
    Request padded = full;
    padded.active.assign(kRows, 0);
    int fault = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      padded.active[at] = row % 4 == 1 ? 1 : 0;
      if (padded.active[at] != 0) continue;
      const auto logits = std::span(padded.logits)
                              .subspan(at * static_cast<std::size_t>(full.vocab),
                                       static_cast<std::size_t>(full.vocab));
      if (++fault < kProcessingFaults) {
        mutate(padded.processing[at], static_cast<ProcessingFault>(fault), logits);
        for (float& x : logits) x = rounded_to(full.dtype, x);
      } else {
        padded.processing[at] = {};
        std::ranges::fill(logits, std::numeric_limits<float>::quiet_NaN());
      }
    }
    const Response before = run_processed(input, full, {});
    const std::vector<std::int32_t> among =
        expect_right(input, "rows among padding", padded, outcome);
    const Response after = run_processed(input, full, {});
    outcome.draws += 2 * kRows;
    ++outcome.measures["padded_batches"];
    if (outcome.failed()) return;
    if (!before.ran() || !after.ran()) {
      outcome.fail(before.trouble() + after.trouble());
      return;
    }
    for (std::size_t at = 0; at < among.size(); ++at) {
      const bool active = padded.active[at] != 0;
      if (active && among[at] != before.tokens[at]) {
        outcome.fail(fmt::format("row {} has token {} among padding and {} among rows", at,
                                 among[at], before.tokens[at]));
        outcome.evidence.suspects.push_back({kPadding, "the same row among rows is right"});
      }
      if (after.tokens[at] != before.tokens[at]) {
        outcome.fail(fmt::format("row {} has token {} after a call with padding and {} before it",
                                 at, after.tokens[at], before.tokens[at]));
      }
    }
  }
}

RowProcessing processing_of_request(const CheckInput& input, std::uint64_t number) {
  RowProcessing processing =
      processing_for_row(input.seed, static_cast<std::int64_t>(number), input.logits->vocab());
  if (input.sampler->description().history_rules && number % 4 == 1) {
    std::mt19937_64 random(mixed(input.seed + 12, number));
    add_random_rules(processing, random, input.logits->vocab());
  }
  leave_out(input.sampler->description().lacked_steps, processing);
  processing.output.clear();
  processing.output_length = 0;
  return processing;
}

void expect_running_batch(const CheckInput& input, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  constexpr std::int64_t kSteps = 16, kDifferentRows = 64;
  if (outcome.failed() || !sampler.per_request_seeds || input.logits->vocab() > kMaxTokensOfBatches)
    return;
  const Request rows = make_request(input, 0, kDifferentRows);
  const auto vocab = static_cast<std::size_t>(rows.vocab);
  const std::size_t words = rows.allowed.size() / kDifferentRows;
  Batch batch(input);
  RowProcessing left_behind;  // lists that a request left in a free slot
  for (std::int64_t step = 0; step < kSteps; ++step) {
    batch.change();
    Request request = rows;
    for (auto* const values : {&request.seed, &request.offset}) values->clear();
    request.logits.clear();
    request.allowed.clear();
    request.parameters.clear();
    std::vector<Running*> of_row;
    for (std::optional<Running>& slot : batch.slots()) {
      if (!slot && !sampler.active_rows) continue;  // without padding, only running rows are given
      const std::uint64_t number = slot ? slot->number : 0;
      const auto from = (number + static_cast<std::uint64_t>(5 * step)) % kDifferentRows;
      const float* const logits = rows.row(static_cast<std::int64_t>(from));
      request.logits.insert(request.logits.end(), logits, logits + vocab);
      const auto allowed = rows.allowed.begin() + static_cast<std::ptrdiff_t>(from * words);
      request.allowed.insert(request.allowed.end(), allowed,
                             allowed + static_cast<std::ptrdiff_t>(words));
      request.parameters.push_back(rows.parameters[number % kDifferentRows]);
      if (slot) left_behind = slot->processing;
      request.processing.push_back(left_behind);
      request.seed.push_back(slot ? batch.seed_of(*slot) : 0);
      request.offset.push_back(slot ? slot->offset : 0);
      if (sampler.active_rows) request.active.push_back(slot ? 1 : 0);
      of_row.push_back(slot ? &*slot : nullptr);
    }
    request.rows = static_cast<std::int64_t>(of_row.size());
    if (request.rows == 0) continue;
    const std::vector<std::int32_t> tokens =
        expect_right(input, fmt::format("running batch, step {}", step), request, outcome);
    if (outcome.failed()) return;
    outcome.measures["batch_steps"] += 1;
    for (std::size_t i = 0; i < of_row.size(); ++i) {
      if (of_row[i] == nullptr || tokens[i] < 0) continue;
      RowProcessing& processing = of_row[i]->processing;
      processing.output.push_back(tokens[i]);
      ++processing.output_length;
      ++of_row[i]->offset;
    }
  }
}

}  // namespace fairdraw::harness
