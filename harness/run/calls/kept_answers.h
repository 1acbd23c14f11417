// Keeps answers of oracles about rows for the other samplers of the same case, because sorting a
// row takes ten times as long as a sampler's call with that row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reference/integer_model.h"
#include "reference/log_probabilities.h"
#include "reference/operation_bound.h"
#include "reference/real_oracle.h"

namespace fairdraw::harness {

/// The answers of one scope: the samplers of a case all get the same rows. While an object of this
/// class exists, kept_answer() in the same thread searches the object first.
class KeptAnswers {
 public:
  /// Keeps answers up to a total of `max_bytes` bytes; all further answers are computed each time.
  explicit KeptAnswers(std::size_t max_bytes);
  ~KeptAnswers();
  KeptAnswers(const KeptAnswers&) = delete;
  KeptAnswers& operator=(const KeptAnswers&) = delete;

  /// Returns the object of this thread, or null if the thread has none.
  static KeptAnswers* of_this_thread();

  /// Returns the kept answer to a question, or null if none is kept.
  std::shared_ptr<const void> find(const std::string& question) const;
  void keep(std::string question, std::shared_ptr<const void> answer, std::size_t bytes);

  /// Returns a number that is the same for equal semantics.
  std::size_t number_of(const reference::Semantics& semantics);

 private:
  KeptAnswers* before_;
  std::size_t bytes_left_;
  std::unordered_map<std::string, std::shared_ptr<const void>> answers_;
  std::vector<reference::Semantics> semantics_;
};

/// Returns the number of bytes that an answer uses on the heap.
std::size_t bytes_of(const reference::IntegerRow& row);
std::size_t bytes_of(const reference::RealDistribution& distribution);
std::size_t bytes_of(const reference::ChainOutcome& outcome);
std::size_t bytes_of(const reference::ResultIntervals& intervals);
std::size_t bytes_of(const reference::RealLogprobs& row);

/// All data on which an oracle's answer depends, byte by byte, so that equal questions have equal
/// answers.
class Question {
 public:
  /// Begins a question for the function named `what`.
  Question(KeptAnswers& kept, const char* what) : kept_(kept) {
    add(std::span(what, std::strlen(what)));
  }

  template <typename Number>
  void add(std::span<const Number> numbers) {
    add(numbers.size());
    bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  }
  template <typename Number>
    requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void add(Number number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void add(const reference::RowParameters& parameters) {
    add(parameters.temperature);
    add(parameters.top_k);
    add(parameters.top_p);
    add(parameters.min_p);
  }
  void add(const reference::WeightBound& bound) {
    add(bound.constant);
    add(bound.per_octave);
    add(bound.truncation);
    add(bound.unit);
    add(bound.min_p_distance);
  }
  void add(const reference::Semantics& semantics) { add(kept_.number_of(semantics)); }

  std::string take() { return std::move(bytes_); }

 private:
  KeptAnswers& kept_;
  std::string bytes_;
};

/// Returns compute(), or its earlier result if this thread's KeptAnswers has one; `what` names the
/// function, and `parts` are all data on which the answer depends.
template <typename Compute, typename... Parts>
std::invoke_result_t<Compute> kept_answer(const char* what, const Compute& compute,
                                          const Parts&... parts) {
  using Answer = std::invoke_result_t<Compute>;
  KeptAnswers* const kept = KeptAnswers::of_this_thread();
  if (kept == nullptr) return compute();
  Question question(*kept, what);
  (question.add(parts), ...);
  std::string bytes = question.take();
  if (const std::shared_ptr<const void> found = kept->find(bytes)) {
    return *static_cast<const Answer*>(found.get());
  }
  Answer answer = compute();
  const std::size_t size = bytes.size() + bytes_of(answer);
  kept->keep(std::move(bytes), std::make_shared<const Answer>(answer), size);
  return answer;
}

/// Call reference::integer_model and reference::integer_model_from_probs, and keep their answers.
reference::IntegerRow model_of_logits(std::span<const float> logits,
                                      std::span<const std::uint32_t> allowed,
                                      const reference::RowParameters& parameters, TieRule tie_rule,
                                      FilterOrder filter_order);
reference::IntegerRow model_of_probs(std::span<const float> probs,
                                     const reference::RowParameters& parameters,
                                     FilterOrder filter_order = FilterOrder::top_k_first);

}  // namespace fairdraw::harness
