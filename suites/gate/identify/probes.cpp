#include "suites/gate/identify/probes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::suites {
namespace {

using reference::RowParameters;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLn2 = 0x1.62e43p-1F;  // ln 2, rounded to float32

// Returns logits of weights 2^-e. Precondition: e is 0 or a power of two, so that exp(-e ln 2) is
// 2^-e within a relative (e + 1) 2^-29, a small fraction of an ulp.
std::vector<float> octaves(const std::vector<int>& exponents) {
  std::vector<float> logits;
  for (const int e : exponents) logits.push_back(-static_cast<float>(e) * kLn2);
  return logits;
}

// Returns the same logits in a large vocabulary: every `step`-th id has one of the logits, all
// other ids -inf.
std::vector<float> spread(const std::vector<int>& exponents, std::size_t vocab, std::size_t step) {
  std::vector<float> logits(vocab, -kInfinity);
  const std::vector<float> few = octaves(exponents);
  for (std::size_t i = 0; i < few.size(); ++i) logits[step / 2 + i * step] = few[i];
  return logits;
}

class Table {
 public:
  // Value that stands for a top_k of the vocabulary size.
  static constexpr std::int32_t kOff = std::numeric_limits<std::int32_t>::min();

  Probe& add(std::string name, std::string row, std::vector<std::string> choices,
             std::vector<float> values, RowParameters parameters) {
    if (parameters.top_k == kOff) parameters.top_k = static_cast<std::int32_t>(values.size());
    probes_.push_back({.name = std::move(name),
                       .row = std::move(row),
                       .choices = std::move(choices),
                       .values = std::move(values),
                       .parameters = parameters});
    return probes_.back();
  }
  std::vector<Probe> take() { return std::move(probes_); }

 private:
  std::vector<Probe> probes_;
};

constexpr std::int32_t kOff = Table::kOff;

// Weights 1/2, 1/4, 1, 1/4: shares 1/4, 1/8, 1/2, 1/8.
const std::vector<int> kHalves = {1, 2, 0, 2};
constexpr const char* kHalvesText = "shares 1/4, 1/8, 1/2, 1/8";
// Exponents of a row with two maxima.
const std::vector<int> kMaxima = {2, 0, 1, 0};
constexpr const char* kMaximaText = "two equal maxima, ids 1 and 3, and two smaller tokens";
const std::vector<int> kEqual = {0, 0, 0, 0};

void add_top_k(Table& table) {
  const std::vector<int> ties = {2, 1, 2, 0, 2};
  table.add("ties at k", "weights 1/4, 1/2, 1/4, 1, 1/4, the third place shared by ids 0, 2, 4",
            {"top_k_ties"}, octaves(ties), {.top_k = 3});
  table.add("ties at k, large vocabulary", "the same five among 65536 tokens, the others -inf",
            {"top_k_ties"}, spread(ties, 65536, 13000), {.top_k = 3});
  table.add("k = 1", kMaximaText, {"top_k_one"}, octaves(kMaxima), {.top_k = 1});
  table.add("k = 0", kHalvesText, {"top_k_zero"}, octaves(kHalves), {.top_k = 0});
  std::vector<int> many(260, 0);
  for (std::size_t id = 0; id < many.size(); id += 52) many[id] = 1;
  table.add("k = -1", "255 equal logits and five, ids 0, 52, 104, 156, 208, of half their weight",
            {"top_k_negative"}, octaves(many), {.top_k = -1});
  table.add("k = -2", kHalvesText, {"top_k_negative"}, octaves(kHalves), {.top_k = -2});
  table.add("k = V", kHalvesText, {"top_k_above_vocab"}, octaves(kHalves), {.top_k = 4});
  table.add("k = V + 1", kHalvesText, {"top_k_above_vocab"}, octaves(kHalves), {.top_k = 5});
  table.add("k = V + 1 with T = 0", kHalvesText, {"top_k_above_vocab"}, octaves(kHalves),
            {.temperature = 0, .top_k = 5});
  table.add("k = 1025", "five of 2048 tokens, the others -inf", {"top_k_limit"},
            spread(ties, 2048, 400), {.top_k = 1025});
}

void add_top_p(Table& table) {
  const auto halves = octaves(kHalves);
  table.add("mass exactly at p", kHalvesText, {"top_p_boundary"}, halves,
            {.top_k = kOff, .top_p = 0.5F});
  table.add("p inside the second token", kHalvesText, {"top_p_boundary", "boundary_mass"}, halves,
            {.top_k = kOff, .top_p = 0.625F});
  table.add("mass up to a token exactly p", kHalvesText, {"top_p_boundary"}, halves,
            {.top_k = kOff, .top_p = 0.75F});
  table.add("mass exactly at p, equal logits", "four equal logits", {"top_p_boundary", "equal_row"},
            octaves(kEqual), {.top_k = kOff, .top_p = 0.5F});
  table.add("k = 2, equal logits", "four equal logits", {"equal_row"}, octaves(kEqual),
            {.top_k = 2});
  table.add("p inside a tie", "shares 1/8, 1/2 at id 1, 1/8, 1/8, 1/8", {"top_p_ties"},
            octaves({2, 0, 2, 2, 2}), {.top_k = kOff, .top_p = 0.6875F});
  table.add("top_p after top_k", kHalvesText, {"top_p_base"}, halves,
            {.top_k = 2, .top_p = 0.59375F});
  table.add("top_p after top_k, with min_p", kHalvesText, {"top_p_base"}, halves,
            {.top_k = 2, .top_p = 0.59375F, .min_p = 0.0625F});
  table.add("p = 0", kMaximaText, {"top_p_zero"}, octaves(kMaxima), {.top_k = kOff, .top_p = 0});
  table.add("p = 0 without top_k", kMaximaText, {"top_p_zero"}, octaves(kMaxima),
            {.top_k = 0, .top_p = 0});
  table.add("p = 0 with k = 3", kMaximaText, {"top_p_zero"}, octaves(kMaxima),
            {.top_k = 3, .top_p = 0});
  table.add("p = 1", kHalvesText, {"top_p_one"}, halves, {.top_k = kOff, .top_p = 1});
  table.add("p = 1.5", kHalvesText, {"top_p_above_one"}, halves, {.top_k = kOff, .top_p = 1.5F});
}

void add_min_p(Table& table) {
  const auto halves = octaves(kHalves);
  table.add("min_p alone", kHalvesText, {"min_p_place"}, halves, {.top_k = kOff, .min_p = 0.375F});
  table.add("min_p with top_p", kHalvesText, {"min_p_place"}, halves,
            {.top_k = kOff, .top_p = 0.59375F, .min_p = 0.375F});
  table.add("probability exactly at min_p", kHalvesText, {"min_p_boundary"}, halves,
            {.top_k = kOff, .min_p = 0.5F});
  table.add("min_p = 1", kMaximaText, {"min_p_one", "min_p_boundary"}, octaves(kMaxima),
            {.top_k = kOff, .min_p = 1});
  table.add("min_p = 1.5", kHalvesText, {"invalid_parameter"}, halves,
            {.top_k = kOff, .min_p = 1.5F});
  table.add("min_p = -0.5", kHalvesText, {"invalid_parameter"}, halves,
            {.top_k = kOff, .min_p = -0.5F});
  table.add("p = -0.5", kHalvesText, {"invalid_parameter"}, halves,
            {.top_k = kOff, .top_p = -0.5F});
}

// Returns two logits; at this temperature the first token has half of the second one's weight.
std::vector<float> half_at(float temperature) { return {-temperature * kLn2, 0}; }

void add_temperature(Table& table) {
  // The two largest tokens hold 3/4 of the mass at T = 1, and 0.631 at T = 2.
  table.add("top_p at T = 2", kHalvesText, {"temperature_place"}, octaves(kHalves),
            {.temperature = 2, .top_k = kOff, .top_p = 0.6875F});
  table.add("min_p at T = 2", kHalvesText, {"temperature_place", "min_p_place"}, octaves(kHalves),
            {.temperature = 2, .top_k = kOff, .min_p = 0.6F});
  table.add("T = 0, nearly equal", "logits -1, 0, -2, -1e-6", {"temperature_zero"},
            {-1, 0, -2, -1e-6F}, {.temperature = 0, .top_k = kOff});
  table.add("T = 0, equal maxima", "logits -1, 0, -2, 0", {"temperature_zero", "greedy_ties"},
            {-1, 0, -2, 0}, {.temperature = 0, .top_k = kOff});
  table.add("T = -1", "logits -1, 0, -2, -3", {"temperature_below_zero"}, {-1, 0, -2, -3},
            {.temperature = -1, .top_k = kOff});
  for (const float temperature : {5e-7F, 5e-6F}) {
    table.add(temperature < 1e-6F ? "T = 5e-7" : "T = 5e-6", "the first of two tokens at -T ln 2",
              {"greedy_below", "least_temperature"}, half_at(temperature),
              {.temperature = temperature, .top_k = kOff});
  }
  table.add("T = 0.005", "the first of two tokens at -T ln 2", {"least_temperature"},
            half_at(0.005F), {.temperature = 0.005F, .top_k = kOff});
}

void add_bad_rows(Table& table) {
  table.add("NaN", "logits 0, NaN, 1, 0", {"nan_logit"}, {0, std::nanf(""), 1, 0}, {.top_k = kOff});
  table.add("+inf", "logits 0, +inf, 1, 0", {"nan_logit"}, {0, kInfinity, 1, 0}, {.top_k = kOff});
  table.add("no token", "four logits of -inf", {"nan_logit"}, std::vector<float>(4, -kInfinity),
            {.top_k = kOff});
  table
      .add("a banned token at T = 10000", "four equal logits, id 1 banned", {"banned_logit"},
           octaves(kEqual), {.temperature = 10'000, .top_k = kOff})
      .allowed = {0b1101};
  table
      .add("probabilities with the sum 5/8", "probabilities 1/8, 1/8, 1/4, 1/8",
           {"probability_sum"}, {0.125F, 0.125F, 0.25F, 0.125F}, {.top_k = kOff})
      .input = harness::RowInput::probabilities;
  // A floor of 1e-9 under 2^17 masked tokens gives them 1.3e-4 of the draws.
  std::vector<float> one(std::size_t{1} << 17U, -kInfinity);
  one[12345] = 0;
  table
      .add("one token of 2^17", "all logits but one are -inf", {"masked_probability_floor"},
           std::move(one), {.top_k = kOff})
      .many_draws = true;
}

bool is_dyadic(const Probe& probe) {
  return probe.input == harness::RowInput::logits && probe.parameters.temperature == 1 &&
         probe.allowed.empty() &&
         std::none_of(probe.values.begin(), probe.values.end(),
                      [](float x) { return std::isnan(x) || x == kInfinity; }) &&
         std::any_of(probe.values.begin(), probe.values.end(),
                     [](float x) { return std::isfinite(x); });
}

}  // namespace

const std::vector<Probe>& probes() {
  static const std::vector<Probe> all = [] {
    Table table;
    table.add("no filter", kHalvesText, {}, octaves(kHalves), {.top_k = kOff});
    add_top_k(table);
    add_top_p(table);
    add_min_p(table);
    add_temperature(table);
    add_bad_rows(table);
    return table.take();
  }();
  return all;
}

reference::RealDistribution distribution_of_probe(const Probe& probe,
                                                  const reference::Semantics& semantics) {
  reference::Semantics used = without_slack(semantics);
  const bool about_floor = std::find(probe.choices.begin(), probe.choices.end(),
                                     "masked_probability_floor") != probe.choices.end();
  if (!about_floor) used.masked_probability_floor = 0;
  if (probe.input == harness::RowInput::probabilities) {
    return reference::real_oracle_from_probs(probe.values, probe.parameters, used, false);
  }
  if (is_dyadic(probe)) {
    used.probability_sum = reference::ProbabilitySum::any;
    return reference::real_oracle_from_probs(float32_weights(probe.values), probe.parameters, used,
                                             false);
  }
  return reference::real_oracle(probe.values, probe.allowed, probe.parameters, used,
                                {.constant = 0, .per_octave = 0, .truncation = false});
}

}  // namespace fairdraw::suites
