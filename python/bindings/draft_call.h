// Brings requests with drafted tokens into one form for a callable under test. The contract has two
// calls for drafts, and both get this form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/contract/drafts.h"

namespace fairdraw::python {

/// A call that verifies drafts in the form that Python gets, with the same number of rows for each
/// request. Most arrays in the call are the harness's own arrays. Arrays whose form differs in the
/// harness are copied here, without the harness's guards.
class DraftCall {
 public:
  explicit DraftCall(const fairdraw_chain& chain);
  explicit DraftCall(const fairdraw_verification& call);
  DraftCall(const DraftCall&) = delete;
  DraftCall& operator=(const DraftCall&) = delete;

  bool from_probs = false;  ///< whether the target's rows are probabilities, not logits
  std::uint32_t dtype = 0;
  std::int64_t requests = 0, max_draft = 0, vocab = 0;
  const void* target = nullptr;  ///< [requests, max_draft + 1, vocab]: the target's rows
  const std::int32_t *draft_tokens = nullptr, *draft_lengths = nullptr;
  std::uint32_t draft_law = 0;  ///< kind of the drafts' distribution, as in fairdraw_verification
  const void* draft = nullptr;  ///< [requests, max_draft, vocab]: the draft's rows; null if
                                ///< draft_law is 0

  /// Sampling parameters of a target of logits; null for a target of probabilities.
  const float *temperature = nullptr, *top_p = nullptr, *min_p = nullptr;
  const std::int32_t* top_k = nullptr;
  const float *draft_temperature = nullptr, *draft_top_p = nullptr, *draft_min_p = nullptr;
  const std::int32_t* draft_top_k = nullptr;
  std::uint32_t tie_rule = 0, filter_order = 0;
  const std::uint32_t* allowed = nullptr;  ///< [requests, max_draft + 1, words]: bits of allowed
                                           ///< tokens
  const std::uint8_t* active = nullptr;
  bool seed_is_scalar = false;
  const std::uint64_t *seed = nullptr, *offset = nullptr;
  const std::uint64_t *accept_words = nullptr, *recover_words = nullptr, *bonus_words = nullptr;

  std::int32_t* tokens = nullptr;    ///< [requests, max_draft + 1]
  std::int32_t* accepted = nullptr;  ///< [requests]: numbers of drafted tokens that are emitted;
                                     ///< optional
  std::int32_t* passed = nullptr;    ///< [requests]: counts for chains only, as
                                     ///< fairdraw_chain::accepted; optional
  std::int32_t* statuses = nullptr;  ///< [requests]; optional

 private:
  void unpack(const fairdraw_verification& call);

  std::vector<std::byte> target_copy_, draft_copy_;
  std::vector<std::int32_t> tokens_copy_, lengths_copy_;
  std::vector<std::uint32_t> allowed_copy_;
};

}  // namespace fairdraw::python
