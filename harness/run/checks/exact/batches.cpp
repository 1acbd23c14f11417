// Judges rows in batches of many sizes, because engines choose kernels by the number of rows, and
// all kernels must give the same results.
//
// This check cannot detect errors of a kernel that is only used for sizes between two of its batch
// sizes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/batch_sizes.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/replay_relations.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// The maximum number of probabilities in a call that requests whole rows of probabilities: 64 MiB.
constexpr std::int64_t kMaxProbabilities = std::int64_t{1} << 24;

// The right results of a base row in a batch of any size.
struct Answer {
  bool judged = true;       // true if the profile defines the results of the row
  bool may_refuse = false;  // true if a call with the row may be refused
  RowStatus status = RowStatus::ok;
  std::vector<std::uint32_t> in, open;            // masks; tokens in `open` may have either bit
  std::int32_t min_support = 0, max_support = 0;  // smallest and largest right support size
  std::vector<float> probs;                       // empty for samplers that are not exact
  reference::IntegerRow model;                    // empty for samplers that are not exact
};

std::vector<std::uint32_t> packed(std::int64_t vocab, const std::function<bool(std::size_t)>& is) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(words_for(vocab)));
  for (std::size_t id = 0; id < static_cast<std::size_t>(vocab); ++id) {
    if (is(id)) words[id / 32] |= 1U << (id % 32);
  }
  return words;
}

Answer answer_of(const CheckInput& input, const Request& base, std::int64_t row) {
  Answer answer;
  const reference::RealDistribution distribution = distribution_of(input, base, row);
  answer.may_refuse = !distribution.defined || distribution.must_fail;
  if (input.exact()) {
    answer.model = model_of(base, row);
    answer.status = answer.model.status;
    const bool ok = answer.status == RowStatus::ok;
    answer.in =
        packed(base.vocab, [&](std::size_t id) { return ok && answer.model.mask[id] != 0; });
    answer.open.resize(answer.in.size());
    answer.min_support = answer.max_support = ok ? answer.model.support_size : 0;
    for (std::int32_t id = 0; id < base.vocab; ++id) {
      answer.probs.push_back(ok ? answer.model.probability(id) : 0);
    }
    return answer;
  }
  answer.judged = distribution.defined || distribution.must_fail;
  if (distribution.must_fail) answer.status = RowStatus::no_allowed_token;  // or another error
  const auto is = [&](Membership which) {
    return packed(base.vocab, [&, which](std::size_t id) {
      return !distribution.membership.empty() && distribution.membership[id] == which;
    });
  };
  answer.in = is(Membership::in);
  answer.open = is(Membership::ambiguous);
  answer.min_support = distribution.support_low;
  answer.max_support = distribution.support_high;
  return answer;
}

// A row of a call: its base row, and the seed of its draw.
struct BatchRow {
  std::int64_t base;
  std::uint64_t seed;
  std::int32_t token = 0;  // the right token of the draw, if `known` is true
  bool known = false;
};

class Batches {
 public:
  // The argument `max_size` is the number of rows of the largest batch.
  Batches(const CheckInput& input, std::int64_t max_size, CheckOutcome& outcome)
      : input_(input),
        outcome_(outcome),
        max_size_(max_size),
        base_(make_request(input, 0, input.rows)) {
    add_empty_row();
    for (std::int64_t row = 0; row < base_.rows; ++row) {
      answers_.push_back(answer_of(input, base_, row));
    }
    // The number of base rows is odd (suites/gate/cases/batch_cases.cpp), so two rows whose
    // distance is a power of two have different base rows.
    for (std::int64_t i = 0; i < max_size_; ++i) {
      places_.push_back({i % input.rows, mixed(input.seed + 3, static_cast<std::uint64_t>(i))});
    }
  }

  const Request& base() const { return base_; }

  // Finds the expected tokens, which are those of the model, or those that the sampler draws for
  // each row alone.
  void draw_alone() {
    const bool alone = input_.sampler->description().per_request_seeds;
    for (BatchRow& place : places_) {
      if (outcome_.failed()) return;
      if (input_.exact()) {
        const Answer& answer = answers_[static_cast<std::size_t>(place.base)];
        place.token = answer.model.token_by_attempts([&place](std::uint32_t attempt) {
          return random_word(place.seed, 0, Purpose::draw, 0, attempt);
        });
        place.known = true;
      } else if (alone && answers_[static_cast<std::size_t>(place.base)].judged) {
        fill({place});
        const Response response = run({place}, "a row alone", {});
        if (!response.ran()) continue;
        place.token = response.tokens.front();
        place.known = true;
      }
    }
  }

  void compare(std::int64_t size) {
    // Batches of all sizes use the same rows, at different places in the batch.
    std::vector<BatchRow> places;
    for (std::int64_t i = 0; i < size; ++i) {
      places.push_back(places_[static_cast<std::size_t>((i + size) % max_size_)]);
    }
    fill(places);
    compare(places, {});
    compare(places, everything(size));
    if (size < 3 || base_.input == RowInput::probabilities) return;
    if (!input_.sampler->description().bad_rows) {
      outcome_.leave_out(lack_of("bad_rows"));
      return;
    }
    // The middle row is replaced by a row from which nothing can be drawn.
    const std::int64_t middle = size / 2;
    BatchRow& bad = places[static_cast<std::size_t>(middle)];
    // Some profiles draw from a row without allowed tokens, because they bound masked logits from
    // below.
    bad = {base_.rows - 1, bad.seed, -1, answers_.back().status != RowStatus::ok};
    std::copy_n(base_.row(bad.base), base_.vocab,
                request_.logits.begin() + static_cast<std::ptrdiff_t>(middle * base_.vocab));
    request_.parameters[static_cast<std::size_t>(middle)] =
        base_.parameters[static_cast<std::size_t>(bad.base)];
    compare(places, everything(size));
  }

 private:
  // Appends the last base row, in which no token is allowed.
  void add_empty_row() {
    const Request first = pick_rows(base_, {0});
    append_row(first, 0, base_);
    std::fill(base_.logits.end() - static_cast<std::ptrdiff_t>(base_.vocab), base_.logits.end(),
              base_.input == RowInput::logits ? -std::numeric_limits<float>::infinity() : 0.0F);
    ++base_.rows;
  }

  WantedResults everything(std::int64_t size) const {
    WantedResults wanted{.statuses = true, .support_size = true, .mask = true};
    wanted.probs = input_.exact() && size * base_.vocab <= kMaxProbabilities;
    return reported(input_.sampler->description(), base_, wanted);
  }

  // Makes a call of these rows, in memory that is kept for the next call, because a large batch
  // uses many pages.
  void fill(const std::vector<BatchRow>& places) {
    request_.input = base_.input;
    request_.dtype = base_.dtype;
    request_.vocab = base_.vocab;
    request_.tie_rule = base_.tie_rule;
    request_.filter_order = base_.filter_order;
    request_.rows = static_cast<std::int64_t>(places.size());
    request_.logits.clear();
    request_.parameters.clear();
    request_.processing.clear();
    request_.allowed.clear();
    request_.seed.clear();
    request_.offset.assign(places.size(), 0);
    request_.logits.reserve(static_cast<std::size_t>(max_size_ * base_.vocab));
    for (const BatchRow& place : places) {
      append_row(base_, place.base, request_);
      request_.seed.push_back(place.seed);
    }
  }

  // Runs the call that fill() made from the given rows.
  Response run(const std::vector<BatchRow>& places, const std::string& name,
               const WantedResults& wanted) {
    Response response = run_request(*input_.sampler, request_, wanted);
    outcome_.rows += places.size();
    outcome_.draws += response.tokens.size();
    if (response.ran()) return response;
    if (!response.damage.empty() || !may_refuse(places)) {
      outcome_.fail(fmt::format("{}: {}", name, response.trouble()));
    }
    return response;
  }

  // Returns whether no status can be reported and some row may fail under the profile.
  bool may_refuse(const std::vector<BatchRow>& places) const {
    if (input_.sampler->description().reports_status) return false;
    return std::any_of(places.begin(), places.end(), [this](const BatchRow& place) {
      return answers_[static_cast<std::size_t>(place.base)].may_refuse;
    });
  }

  void compare(const std::vector<BatchRow>& places, const WantedResults& wanted) {
    if (outcome_.failed()) return;
    const std::string name = fmt::format("a batch of {} rows", places.size());
    const Response response = run(places, name, wanted);
    if (!response.ran()) return;
    ++outcome_.measures["batches"];
    for (std::size_t row = 0; row < places.size() && !outcome_.failed(); ++row) {
      const std::string wrong = fault_of(response, places[row], row);
      if (wrong.empty()) continue;
      const auto base = static_cast<std::size_t>(places[row].base);
      outcome_.fail(
          fmt::format("{}: row {} ({}): {}", name, row, describe(base_.parameters[base]), wrong));
    }
  }

  // Returns the reason why a result is not right for the row, or an empty string if it is.
  std::string fault_of(const Response& response, const BatchRow& place, std::size_t row) const {
    const Answer& answer = answers_[static_cast<std::size_t>(place.base)];
    if (!answer.judged) return {};
    const bool ok = answer.status == RowStatus::ok;
    const std::int32_t token = response.tokens[row];
    if (!ok && token != -1) return fmt::format("token {} for a row that must fail", token);
    if (place.known && token != place.token) {
      return fmt::format("token {}, expected {}{}", token, place.token,
                         input_.exact() ? "" : " as alone in a call");
    }
    if (ok && (token < 0 || token >= base_.vocab)) {
      return fmt::format("token {} outside of the vocabulary", token);
    }
    if (ok && !((answer.in[at(token)] | answer.open[at(token)]) >> (token % 32) & 1U)) {
      return fmt::format("token {} outside of the support", token);
    }
    if (!response.statuses.empty()) {
      const bool right = input_.exact()
                             ? response.statuses[row] == static_cast<std::int32_t>(answer.status)
                             : (response.statuses[row] == 0) == ok;
      if (!right) return fmt::format("status {}", response.statuses[row]);
    }
    if (!response.support_size.empty() && (response.support_size[row] < answer.min_support ||
                                           response.support_size[row] > answer.max_support)) {
      return fmt::format("support size {}, expected {} to {}", response.support_size[row],
                         answer.min_support, answer.max_support);
    }
    const auto words = static_cast<std::size_t>(words_for(base_.vocab));
    for (std::size_t word = 0; word < words && !response.mask.empty(); ++word) {
      const std::uint32_t wrong =
          (response.mask[row * words + word] ^ answer.in[word]) & ~answer.open[word];
      if (wrong == 0) continue;
      const std::size_t bit = static_cast<std::size_t>(std::countr_zero(wrong));
      return fmt::format("the mask is wrong about token {}", 32 * word + bit);
    }
    const auto vocab = static_cast<std::size_t>(base_.vocab);
    for (std::size_t id = 0; id < vocab && !response.probs.empty(); ++id) {
      if (response.probs[row * vocab + id] == answer.probs[id]) continue;
      return fmt::format("token {} has probability {:a}, expected {:a}", id,
                         response.probs[row * vocab + id], answer.probs[id]);
    }
    return {};
  }

  static std::size_t at(std::int32_t token) { return static_cast<std::size_t>(token / 32); }

  const CheckInput& input_;
  CheckOutcome& outcome_;
  std::int64_t max_size_;
  Request base_;
  std::vector<Answer> answers_;
  std::vector<BatchRow> places_;
  Request request_;
};

// Returns all sizes. A case with few different rows, such as each of many vocabulary sizes, makes
// one small and one larger batch, which its seed selects.
std::vector<std::int64_t> sizes_of(const CheckInput& input) {
  if (input.rows >= kRowsOfAllSizes) return {std::begin(kBatchSizes), std::end(kBatchSizes)};
  constexpr std::int64_t kSmall[] = {1, 2, 3, 8}, kLarger[] = {33, 33, 33, 65};
  return {kSmall[mixed(input.seed, 7) % std::size(kSmall)],
          kLarger[mixed(input.seed, 8) % std::size(kLarger)]};
}

}  // namespace

CheckOutcome check_batches(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (const Lack lacks = lack_for(sampler, make_request(input, 0, input.rows)); !lacks.empty()) {
    return skipped(lacks);
  }
  CheckOutcome outcome;
  const std::vector<std::int64_t> sizes = sizes_of(input);
  Batches batches(input, sizes.back(), outcome);
  batches.draw_alone();
  for (const std::int64_t size : sizes) batches.compare(size);
  if (!outcome.failed() && outcome.measures["batches"] == 0) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} rows in {} batches of {} to {} rows give the same", outcome.rows,
                    outcome.measures["batches"], sizes.front(), sizes.back());
  }
  return outcome;
}

}  // namespace fairdraw::harness
