#include "harness/run/calls/kept_answers.h"

#include <algorithm>
#include <utility>

namespace fairdraw::harness {
namespace {

thread_local KeptAnswers* current = nullptr;

}  // namespace

KeptAnswers::KeptAnswers(std::size_t max_bytes) : before_(current), bytes_left_(max_bytes) {
  current = this;
}

KeptAnswers::~KeptAnswers() { current = before_; }

KeptAnswers* KeptAnswers::of_this_thread() { return current; }

std::shared_ptr<const void> KeptAnswers::find(const std::string& question) const {
  const auto found = answers_.find(question);
  return found == answers_.end() ? nullptr : found->second;
}

void KeptAnswers::keep(std::string question, std::shared_ptr<const void> answer,
                       std::size_t bytes) {
  if (bytes > bytes_left_) return;
  bytes_left_ -= bytes;
  answers_.emplace(std::move(question), std::move(answer));
}

std::size_t KeptAnswers::number_of(const reference::Semantics& semantics) {
  const auto found = std::find(semantics_.begin(), semantics_.end(), semantics);
  const auto number = static_cast<std::size_t>(found - semantics_.begin());
  if (found == semantics_.end()) semantics_.push_back(semantics);
  return number;
}

std::size_t bytes_of(const reference::IntegerRow& row) {
  return row.tiles.size() * sizeof(row.tiles[0]) + row.mask.size() +
         row.weight.size() * sizeof(row.weight[0]) +
         row.uncut_weight.size() * sizeof(row.uncut_weight[0]) +
         row.speculation_weight.size() * sizeof(row.speculation_weight[0]);
}

std::size_t bytes_of(const reference::RealDistribution& distribution) {
  return distribution.membership.size() * (sizeof(reference::Membership) + sizeof(double));
}

std::size_t bytes_of(const reference::ChainOutcome& outcome) {
  return outcome.tokens.size() * sizeof(outcome.tokens[0]);
}

std::size_t bytes_of(const reference::ResultIntervals& intervals) {
  return (intervals.low.size() + intervals.high.size()) * sizeof(double);
}

std::size_t bytes_of(const reference::RealLogprobs& row) {
  return row.logits.size() * sizeof(float) + row.order.size() * sizeof(row.order[0]) +
         (row.value.size() + row.bound.size()) * sizeof(double);
}

reference::IntegerRow model_of_logits(std::span<const float> logits,
                                      std::span<const std::uint32_t> allowed,
                                      const reference::RowParameters& parameters, TieRule tie_rule,
                                      FilterOrder filter_order) {
  return kept_answer(
      "integer_model",
      [&] { return reference::integer_model(logits, allowed, parameters, tie_rule, filter_order); },
      logits, allowed, parameters, tie_rule, filter_order);
}

reference::IntegerRow model_of_probs(std::span<const float> probs,
                                     const reference::RowParameters& parameters,
                                     FilterOrder filter_order) {
  return kept_answer(
      "integer_model_from_probs",
      [&] { return reference::integer_model_from_probs(probs, parameters, filter_order); }, probs,
      parameters, filter_order);
}

}  // namespace fairdraw::harness
