#include "python/bindings/draft_call.h"

#include <algorithm>
#include <cstring>

#include "harness/contract/call_arrays.h"
#include "harness/contract/serving_arrays.h"

namespace fairdraw::python {
namespace {

// Returns an address that is valid even for an empty array.
template <class T>
const T* somewhere(const T* pointer) {
  static constexpr std::int64_t kNowhere = 0;
  return pointer != nullptr ? pointer : static_cast<const T*>(static_cast<const void*>(&kNowhere));
}

// Copies rows of `row_bytes` bytes to a layout with `columns` rows per request. Unused rows are
// NaN.
class RowsOfRequests {
 public:
  RowsOfRequests(std::int64_t requests, std::int64_t columns, std::int64_t row_bytes)
      : columns_(columns),
        row_bytes_(static_cast<std::size_t>(row_bytes)),
        bytes_(static_cast<std::size_t>(requests * columns) * row_bytes_, std::byte{0xff}) {}

  void take(const void* rows, std::int64_t first, std::int64_t count, std::int64_t request) {
    const auto at = [this](std::int64_t row) { return static_cast<std::size_t>(row) * row_bytes_; };
    if (count == 0) return;
    std::memcpy(bytes_.data() + at(request * columns_),
                static_cast<const std::byte*>(rows) + at(first), at(count));
  }
  std::vector<std::byte> bytes() && { return std::move(bytes_); }

 private:
  std::int64_t columns_;
  std::size_t row_bytes_;
  std::vector<std::byte> bytes_;
};

}  // namespace

DraftCall::DraftCall(const fairdraw_chain& chain)
    : from_probs(true),
      dtype(chain.dtype),
      requests(chain.batch),
      max_draft(chain.num_draft_tokens),
      vocab(chain.vocab),
      target(chain.target_probs),
      draft_tokens(somewhere(chain.draft_tokens)),
      draft_law(1),
      draft(somewhere(chain.draft_probs)),
      seed_is_scalar(chain.seed_is_scalar != 0),
      seed(chain.seed),
      offset(chain.offset),
      accept_words(chain.accept_words),
      recover_words(chain.recover_words),
      bonus_words(chain.bonus_words),
      tokens(chain.tokens),
      accepted(chain.emitted),
      passed(chain.accepted),
      statuses(chain.statuses) {
  lengths_copy_.assign(static_cast<std::size_t>(requests), static_cast<std::int32_t>(max_draft));
  draft_lengths = somewhere(lengths_copy_.data());
}

DraftCall::DraftCall(const fairdraw_verification& call)
    : dtype(call.dtype),
      requests(call.batch),
      max_draft(call.max_draft),
      vocab(call.vocab),
      target(call.target),
      draft_tokens(somewhere(call.draft_tokens)),
      draft_lengths(call.draft_lengths),
      draft_law(call.draft_law),
      draft(call.draft_law == 0 ? nullptr : somewhere(call.draft)),
      temperature(call.temperature),
      top_p(call.top_p),
      min_p(call.min_p),
      top_k(call.top_k),
      draft_temperature(call.draft_temperature),
      draft_top_p(call.draft_top_p),
      draft_min_p(call.draft_min_p),
      draft_top_k(call.draft_top_k),
      tie_rule(call.tie_rule),
      filter_order(call.filter_order),
      allowed(call.allowed),
      active(call.active),
      seed_is_scalar(call.seed_is_scalar != 0),
      seed(call.seed),
      offset(call.offset),
      tokens(call.tokens),
      accepted(call.accepted),
      statuses(call.statuses) {
  if (call.row_begins != nullptr) {
    unpack(call);
  } else if (draft_lengths == nullptr) {
    lengths_copy_.assign(static_cast<std::size_t>(requests), static_cast<std::int32_t>(max_draft));
    draft_lengths = somewhere(lengths_copy_.data());
  }
}

void DraftCall::unpack(const fairdraw_verification& call) {
  const std::int64_t words = harness::words_for(vocab);
  const std::int64_t row_bytes = vocab * harness::element_bytes(dtype);
  RowsOfRequests targets(requests, max_draft + 1, row_bytes),
      drafts(requests, max_draft, row_bytes);
  tokens_copy_.assign(static_cast<std::size_t>(requests * max_draft), -1);
  lengths_copy_.assign(static_cast<std::size_t>(requests), 0);
  if (allowed != nullptr) {
    allowed_copy_.assign(static_cast<std::size_t>(requests * (max_draft + 1) * words), 0);
  }
  for (std::int64_t b = 0; b < requests; ++b) {
    const std::int64_t begin = call.row_begins[b];
    const std::int64_t rows =
        std::clamp<std::int64_t>(call.row_begins[b + 1] - begin, 0, max_draft + 1);
    const std::int64_t room = std::max<std::int64_t>(rows - 1, 0), place = begin - b;
    targets.take(target, begin, rows, b);
    if (draft != nullptr) drafts.take(draft, place, room, b);
    std::copy_n(call.draft_tokens + place, room, tokens_copy_.data() + b * max_draft);
    if (allowed != nullptr) {
      std::copy_n(call.allowed + begin * words, rows * words,
                  allowed_copy_.data() + b * (max_draft + 1) * words);
    }
    // A draft length that exceeds the request's own rows must stay invalid in the layout in which
    // all requests have the same number of rows.
    const std::int32_t length =
        call.draft_lengths != nullptr ? call.draft_lengths[b] : static_cast<std::int32_t>(room);
    const bool fits = length >= 0 && length <= room && rows > 0;
    lengths_copy_[static_cast<std::size_t>(b)] = fits ? length : -1;
  }
  target_copy_ = std::move(targets).bytes();
  target = target_copy_.data();
  if (draft != nullptr) {
    draft_copy_ = std::move(drafts).bytes();
    draft = somewhere(draft_copy_.data());
  }
  draft_tokens = somewhere(tokens_copy_.data());
  draft_lengths = somewhere(lengths_copy_.data());
  if (allowed != nullptr) allowed = allowed_copy_.data();
}

}  // namespace fairdraw::python
