// Mutants with wrong state and lists of a running batch: counts that are too narrow, padding that
// counts, and requests that find data in their slot or leave data there.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "harness/adapters/sample_view.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using reference::RowProcessing;
using Ids = std::vector<std::int32_t>;

/// Replaces the counts of tokens in the output by kept(count).
void count_in(Row& row, std::int32_t (*kept)(std::int32_t count)) {
  if (!row.processing) return;
  RowProcessing& processing = *row.processing;
  if (reference::process_row(row.logits, {}, processing).status != RowStatus::ok) return;
  std::vector<std::int32_t> counts(row.logits.size(), 0);
  if (processing.output_counts) {
    counts = *processing.output_counts;
  } else {
    for (const std::int32_t id : processing.output) {
      if (id >= 0) ++counts[static_cast<std::size_t>(id)];
    }
  }
  for (std::int32_t& count : counts) count = kept(count);
  processing.output_counts = std::move(counts);
}

constexpr Entry kCounts[] = {
    {"counts-saturate-at-127", "occurrences in the output are kept in int8, and stay at 127",
     [](Row& row) { count_in(row, [](std::int32_t count) { return std::min(count, 127); }); }},
    {"counts-saturate-at-255", "occurrences in the output are kept in uint8, and stay at 255",
     [](Row& row) { count_in(row, [](std::int32_t count) { return std::min(count, 255); }); }},
    {"counts-wrap-at-256", "occurrences in the output are kept in uint8: the 256th makes it none",
     [](Row& row) { count_in(row, [](std::int32_t count) { return count & 0xff; }); }},
    {"counts-negative-above-127",
     "occurrences in the output are kept in int8: 128 of them are below 0, which is none",
     [](Row& row) {
       count_in(row, [](std::int32_t count) { return (count & 0x80) != 0 ? 0 : count & 0x7f; });
     }},
    {"counts-wrap-at-65536", "occurrences in the output are kept in uint16",
     [](Row& row) { count_in(row, [](std::int32_t count) { return count & 0xffff; }); }},
    {"prompt-counts-wrap-at-256",
     "a token that occurs 256 times in the prompt passes for one that does not",
     [](Row& row) {
       if (!row.processing) return;
       std::map<std::int32_t, std::int32_t> counts;
       for (const std::int32_t id : row.processing->prompt) ++counts[id];
       std::erase_if(row.processing->prompt,
                     [&counts](std::int32_t id) { return (counts[id] & 0xff) == 0; });
     }},
};

RowProcessing processing_of_row(const fairdraw_batch& call, std::int64_t row) {
  return reference::processing_of_row(harness::processing_of(call), row,
                                      static_cast<std::size_t>(call.vocab));
}

constexpr Entry kPadding[] = {
    {"padding-has-no-lists",
     "lists are counted over active rows: after padding a row has those of a row before it",
     [](Row& row, const Place& place) {
       if (!row.processing) return;
       std::int64_t before = 0;
       for (std::int64_t r = 0; r < place.row; ++r) before += is_active(*place.call, r);
       row.processing = processing_of_row(*place.call, before);
     }},
    {"padding-lists-are-checked",
     "a row that is padding and has bad lists is reported as a bad row", Base::integers,
     [](const fairdraw_batch& call) {
       for (std::int64_t row = 0; row < call.rows; ++row) {
         const bool looked_at = call.statuses != nullptr && call.indices == nullptr &&
                                harness::processing_of(call).given();
         if (!looked_at || is_active(call, row)) continue;
         const std::vector<float> flat(static_cast<std::size_t>(call.vocab), 0.0F);
         const RowStatus status =
             reference::process_row(flat, {}, processing_of_row(call, row)).status;
         if (status == RowStatus::ok) continue;
         call.statuses[row] = static_cast<std::int32_t>(status);
       }
     }},
    {"padding-fails-its-neighbours",
     "one bad list of a row that is padding fails all rows after it", Base::integers,
     [](Row& row, const Place& place) {
       for (std::int64_t r = 0; row.processing && r < place.row; ++r) {
         if (is_active(*place.call, r)) continue;
         const std::vector<float> flat(row.logits.size(), 0.0F);
         const RowStatus status =
             reference::process_row(flat, {}, processing_of_row(*place.call, r)).status;
         if (status == RowStatus::ok || status == RowStatus::no_allowed_token) continue;
         row.processing->repetition_penalty = -1;
       }
     }},
    {"padding-history-leaks", "the output of a row that is padding is added to the next row's",
     [](Row& row, const Place& place) {
       if (!row.processing || place.row == 0 || is_active(*place.call, place.row - 1)) return;
       const Ids ids = processing_of_row(*place.call, place.row - 1).output;
       const auto vocab = static_cast<std::int32_t>(row.logits.size());
       for (const std::int32_t id : ids) {
         if (id < 0 || id >= vocab) continue;
         row.processing->output.insert(row.processing->output.begin(), id);
         if (row.processing->output_counts) {
           ++(*row.processing->output_counts)[static_cast<std::size_t>(id)];
         }
       }
     }},
};

/// Data that a sampler remembers about a request; the sampler identifies requests by their seeds.
struct Seen {
  std::uint64_t last_call = 0, restored_at = 0;
  std::size_t lost = 0;  ///< number of output tokens that the request had when it was restored
};

/// The requests that have been seen so far. note() marks a request as restored if it was absent for
/// at least one call, and comes back with an offset above 0.
struct Requests {
  std::uint64_t calls = 0;
  std::map<std::uint64_t, Seen> seen;

  Seen& note(std::uint64_t seed, std::size_t output, std::uint64_t offset) {
    const auto [entry, is_new] = seen.emplace(seed, Seen{calls, 0, 0});
    Seen& request = entry->second;
    if (!is_new && request.last_call + 1 < calls && offset > 0) {
      request.lost = output;
      request.restored_at = offset;
    }
    request.last_call = calls;
    return request;
  }
};

constexpr Entry kRequests[] = {
    {"evicted-penalties-stay-in-slot",
     "a request that takes a slot right after another keeps that one's penalties",
     [](Mutation& mutation) {
       struct Slot {
         std::uint64_t call = 0;
         RowProcessing processing;
       };
       const auto slots = std::make_shared<std::map<std::int64_t, Slot>>();
       const auto calls = std::make_shared<std::uint64_t>(0);
       mutation.call = [calls](fairdraw_batch&, Storage&) { ++*calls; };
       mutation.row = [slots, calls](Row& row, const Place& place) {
         if (!row.processing) return;
         Slot& slot = (*slots)[place.row];
         const bool taken_over = slot.call + 1 == *calls && row.processing->output.empty() &&
                                 !slot.processing.output.empty();
         const RowProcessing own = *row.processing;
         if (taken_over) take_penalties(*row.processing, slot.processing);
         slot = {*calls, own};
       };
     }},
    {"restored-request-loses-its-output",
     "a request that was evicted comes back without the tokens that it had",
     [](Mutation& mutation) {
       const auto requests = std::make_shared<Requests>();
       mutation.call = [requests](fairdraw_batch&, Storage&) { ++requests->calls; };
       mutation.row = [requests](Row& row, const Place& place) {
         const fairdraw_batch& call = *place.call;
         if (!row.processing || call.seed_is_scalar != 0 || call.indices != nullptr) return;
         Ids& output = row.processing->output;
         const Seen& request =
             requests->note(call.seed[place.row], output.size(), call.offset[place.row]);
         const std::size_t lost = std::min(request.lost, output.size());
         output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(lost));
       };
     }},
    {"restored-request-starts-its-stream-again",
     "a request that was evicted counts its offset from 0 when it comes back",
     [](Mutation& mutation) {
       const auto requests = std::make_shared<Requests>();
       mutation.call = [requests](fairdraw_batch&, Storage&) { ++requests->calls; };
       mutation.word = [requests](const WordKey& of) {
         const Seen& request = requests->note(of.seed, 0, of.offset);
         const std::uint64_t from = std::min(request.restored_at, of.offset);
         return draw_word(of, of.seed, of.offset - from, of.index);
       };
     }},
};

}  // namespace

std::vector<Mutant> running_batch_mutants() {
  return joined({mutants_of("running-batches", "processing/*", Base::distribution, kCounts),
                 mutants_of("running-batches", "processing/*", Base::distribution, kPadding),
                 mutants_of("running-batches", "processing/*", Base::integers, kRequests)});
}

}  // namespace fairdraw::suites
