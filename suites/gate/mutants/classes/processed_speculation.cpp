// Mutants of logits processing for the verification of drafted tokens: a row has a wrong history,
// or only a part of its history.
#include <algorithm>
#include <span>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using harness::DistributionRow;
using harness::DraftedTokens;
using harness::processing_behind;
using reference::RowProcessing;

bool has_processing(const DraftedTokens& request) {
  return !request.target.empty() && request.target.front().processing.has_value();
}

// Calls `change` for each row after the first, with the processing of this row and of row 0. The
// first row of a request stays right.
template <class Change>
void change_rows(DraftedTokens& request, Change change) {
  if (!has_processing(request)) return;
  const RowProcessing first = *request.target.front().processing;
  for (std::size_t i = 1; i < request.target.size(); ++i) {
    change(*request.target[i].processing, first, i);
  }
}

void ignored(DraftedTokens& request) {
  for (DistributionRow& row : request.target) row.processing.reset();
}

void bitmask_of_the_row_before(DraftedTokens& request) {
  for (std::size_t i = request.target.size(); i-- > 1;) {
    request.target[i].allowed = request.target[i - 1].allowed;
  }
}

void bonus_unprocessed(DraftedTokens& request) {
  if (request.target.size() > 1) request.target.back().processing.reset();
}

void not_growing(DraftedTokens& request) {
  change_rows(request,
              [](RowProcessing& row, const RowProcessing& first, std::size_t) { row = first; });
}

// Gives every row the history of the last row, so that tokens are penalised for later drafted
// tokens, which may be rejected.
void of_all_drafts(DraftedTokens& request) {
  if (!has_processing(request) || request.tree) return;
  for (DistributionRow& row : request.target) row.processing = request.target.back().processing;
}

// Gives a node a history of all nodes with lower numbers, even those that are not on its path.
void history_by_number(DraftedTokens& request) {
  if (!request.tree || !has_processing(request)) return;
  const RowProcessing first = *request.target.front().processing;
  for (std::size_t i = 1; i < request.target.size(); ++i) {
    request.target[i].processing = processing_behind(first, std::span(request.drafted).first(i));
  }
}

// Matches bad words only in the first row of a request.
void bad_words_of_the_first_row(DraftedTokens& request) {
  change_rows(request, [](RowProcessing& row, const RowProcessing& first, std::size_t) {
    row.bad_words.clear();
    row.bad_word_lengths.clear();
    std::size_t begin = 0;
    for (const std::int32_t length : first.bad_word_lengths) {
      // Some requests have wrong lengths, for which their rows fail.
      if (length < 1 || begin + static_cast<std::size_t>(length) > first.bad_words.size()) return;
      const auto word = first.bad_words.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::int32_t prefix = length - 1;
      begin += static_cast<std::size_t>(length);
      const bool ends_so = prefix <= static_cast<std::int32_t>(first.output.size()) &&
                           std::equal(word, word + prefix, first.output.end() - prefix);
      if (!ends_so) continue;
      row.bad_words.push_back(word[prefix]);
      row.bad_word_lengths.push_back(1);
    }
  });
}

constexpr Entry kProcessed[] = {
    {"verify-ignores-processing", "rows of the target are judged without penalties, bias and bans",
     ignored},
    {"verify-history-does-not-grow", "all rows of a request have the history of its first",
     not_growing},
    {"verify-history-one-behind", "a row's history lacks the drafted token before it",
     [](DraftedTokens& request) {
       if (!has_processing(request) || request.tree) return;
       for (std::size_t i = request.target.size(); i-- > 1;) {
         request.target[i].processing = request.target[i - 1].processing;
       }
     }},
    {"verify-history-of-all-drafts",
     "tokens are penalised for the drafts behind them, rejected ones too", of_all_drafts},
    // Rejected drafted tokens stay in the history: rows after drafted tokens contain them twice, as
    // if an earlier step had drafted the same tokens and lost them.
    {"verify-rejected-drafts-stay", "drafts are counted when they come, and again when they stand",
     [](DraftedTokens& request) {
       if (!has_processing(request)) return;
       for (DistributionRow& row : request.target)
         row.processing = processing_behind(*row.processing, request.drafted);
     }},
    {"verify-drafts-in-the-prompt",
     "drafts before a row count as prompt: no frequency, no presence",
     [](DraftedTokens& request) {
       change_rows(request, [](RowProcessing& row, const RowProcessing& first, std::size_t) {
         const auto grown = row.output.begin() + static_cast<std::ptrdiff_t>(first.output.size());
         row.prompt.insert(row.prompt.end(), grown, row.output.end());
         row.output = first.output;
       });
     }},
    {"verify-min-tokens-of-the-first-row",
     "stop ids are banned by the length of the output without drafts",
     [](DraftedTokens& request) {
       change_rows(request, [](RowProcessing& row, const RowProcessing& first, std::size_t) {
         row.output_length = first.output_length;
       });
     }},
    {"verify-bad-words-of-the-first-row", "bad words are matched with the history without drafts",
     bad_words_of_the_first_row},
    {"verify-penalties-of-the-first-row", "the rows behind the first are not penalised",
     [](DraftedTokens& request) {
       change_rows(request, [](RowProcessing& row, const RowProcessing&, std::size_t) {
         row.repetition_penalty = 1;
         row.frequency_penalty = row.presence_penalty = 0;
       });
     }},
    {"verify-bonus-unprocessed", "the bonus token's row is not processed", bonus_unprocessed},
    {"verify-bitmask-of-the-row-before", "a row has the bitmask of the row before it",
     bitmask_of_the_row_before},
    {"verify-tree-history-by-number",
     "a node's history holds all nodes before it, not those on its path", history_by_number},
    // Gives row r the penalties of request r, as if penalties had one value per request instead of
    // one per row.
    {"verify-penalties-by-request",
     "penalties are read by the number of the request, not of the row",
     [](fairdraw_verification& call, Storage& storage) {
       if (call.processing.repetition_penalty == nullptr || call.row_begins != nullptr) return;
       std::vector<float> repetition, frequency;
       for (std::int64_t row = 0; row < call.rows; ++row) {
         const std::int64_t of = row / (call.max_draft + 1);
         repetition.push_back(call.processing.repetition_penalty[of]);
         frequency.push_back(call.processing.frequency_penalty[of]);
       }
       call.processing.repetition_penalty = storage.keep(std::move(repetition));
       call.processing.frequency_penalty = storage.keep(std::move(frequency));
     }},
    // A list of token ids ends where the next list begins, whatever its length. Lists that share
    // memory then become empty.
    {"verify-lists-end-at-the-next", "lists are taken to end where the next one begins",
     [](fairdraw_verification& call, Storage& storage) {
       fairdraw_token_lists& output = call.processing.output;
       if (output.lengths == nullptr || call.rows < 2) return;
       std::vector<std::int32_t> lengths(output.lengths, output.lengths + call.rows);
       for (std::int64_t row = 0; row + 1 < call.rows; ++row) {
         lengths[static_cast<std::size_t>(row)] =
             static_cast<std::int32_t>(output.begins[row + 1] - output.begins[row]);
       }
       output.lengths = storage.keep(std::move(lengths));
     }},
    // The entries below are the same mutants without the claim of exact arithmetic; the
    // distribution of emitted tokens reveals them.
    {"verify-law-ignores-processing",
     "rows of the target are judged without penalties, bias and bans",
     By("verify_law/*/processed*", Base::distribution), ignored},
    {"verify-law-history-does-not-grow", "all rows of a request have the history of its first",
     By("verify_law/*/processed*", Base::distribution), not_growing},
    {"verify-law-history-of-all-drafts",
     "tokens are penalised for the drafts behind them, rejected ones too",
     By("verify_law/*/processed*", Base::distribution), of_all_drafts},
    {"verify-law-bonus-unprocessed", "the bonus token's row is not processed",
     By("verify_law/*/processed*", Base::distribution), bonus_unprocessed},
    {"verify-support-bitmask-of-the-row-before", "a row has the bitmask of the row before it",
     By("verify/gaussian_wide/*/banned", Base::distribution), bitmask_of_the_row_before},
    {"verify-support-bad-words-of-the-first-row",
     "bad words are matched with the history without drafts",
     By("verify/*/processed", Base::distribution), bad_words_of_the_first_row},
};

}  // namespace

std::vector<Mutant> processed_speculation_mutants() {
  return mutants_of("speculative", "verify/*/processed*", Base::integers, kProcessed);
}

}  // namespace fairdraw::suites
