// Mutants that are right up to a size at which a kernel's indices, tiles or buffers end, and wrong
// for larger sizes.
#include <algorithm>
#include <cstdint>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kUint16 = 65536;

// Drops the last `lost` ids of a row.
void lose_last(Row& row, std::size_t lost) { drop_from(row, row.logits.size() - lost); }

// Takes the greedy token among the `visible` ids, as if the reduction read only these ids.
void look_at(bool (*visible)(std::size_t id), Result& result, const Row& row) {
  if (result.status != RowStatus::ok || !is_greedy(row) || row.from_probs) return;
  const std::vector<Candidate> best = ranked(result, row);
  if (best.empty() || visible(static_cast<std::size_t>(best.front().id))) return;
  std::size_t found = row.logits.size();
  for (std::size_t id = 0; id < row.logits.size(); ++id) {
    if (!is_allowed(row, id) || !visible(id) || row.logits[id] == kOut) continue;
    if (found == row.logits.size() || row.logits[id] > row.logits[found]) found = id;
  }
  if (found == row.logits.size()) return;
  keep_only(result, {{static_cast<std::int32_t>(found), row.logits[found], 0}});
}

constexpr Entry kVocabularies[] = {
    {"vector-tail-lost",
     "the ids behind the last whole vector of four are lost where a row needs more than one block "
     "of 1024",
     [](Row& row) { lose_last(row, row.logits.size() > 1024 ? row.logits.size() % 4 : 0); }},
    {"lone-last-id-lost", "a last word of the bitmask with one id in it is not looked at",
     [](Row& row) { lose_last(row, row.logits.size() % 32 == 1 ? 1 : 0); }},
    {"tile-of-one-lost", "a last tile of 256 with one id in it is not launched",
     [](Row& row) { lose_last(row, row.logits.size() % 256 == 1 ? 1 : 0); }},
    {"last-of-full-block-lost",
     "a row that fills its last block of 512 to the last thread but one loses that one",
     [](Row& row) { lose_last(row, row.logits.size() % 512 == 511 ? 1 : 0); }},
    {"iota-half-width", "tt-metal issue #52928",
     "the list of ids is half as wide as rows of more than 65536 logits", By("mask/*/v131072/*"),
     [](Row& row) {
       const std::size_t vocab = row.logits.size();
       lose_last(row, vocab > 65536 ? vocab / 2 : 0);
     }},
    {"limit-of-200000-ids", "a table of 200000 ids, enough for the vocabularies of its day",
     [](Row& row) { drop_from(row, 200000); }},
    {"argmax-skips-block-starts",
     "the reduction over blocks of 1024 starts each block but the first with its second id",
     [](Result& result, const Row& row) {
       look_at([](std::size_t id) { return id == 0 || id % 1024 != 0; }, result, row);
     }},
    {"argmax-skips-tile-ends", "the reduction over tiles of 4096 leaves out each tile's last id",
     [](Result& result, const Row& row) {
       look_at([](std::size_t id) { return id % 4096 != 4095; }, result, row);
     }},
    {"argmax-ties-to-later-tile", "PyTorch #93630, tt-metal PR #50687",
     "of equal maxima in two tiles of 65536 ids the later one wins", By("mask/*/v131072/*"),
     [](Result& result, const Row& row) {
       if (result.greedy_token < 0 || row.from_probs) return;
       const auto first = static_cast<std::size_t>(result.greedy_token);
       std::size_t best = first;
       for (std::size_t id = first; id < row.logits.size(); ++id) {
         const bool equal = is_allowed(row, id) && row.logits[id] == row.logits[first];
         if (equal && id / 65536 > best / 65536) best = id;
       }
       if (best != first) {
         keep_only(result, {{static_cast<std::int32_t>(best), row.logits[best], 0}});
       }
     }},
    {"lowest-id-ties-by-tile", "exactly k: the tied are taken from the last tile of 4096 ids first",
     By("mask/*lowest_id*", Base::integers),
     [](Result& result, const Row& row) {
       if (row.tie_rule != TieRule::lowest_id || is_greedy(row) || row.from_probs) return;
       if (row.logits.size() <= 4096 || result.status != RowStatus::ok) return;
       std::vector<Candidate> kept = ranked(result, row);
       const float cut = kept.back().value;
       std::size_t tied = 0;
       while (!kept.empty() && kept.back().value == cut) kept.pop_back(), ++tied;
       std::vector<Candidate> edge;
       for (std::size_t id = 0; id < row.logits.size(); ++id) {
         if (is_allowed(row, id) && row.logits[id] == cut) {
           edge.push_back({static_cast<std::int32_t>(id), cut, result.weight[id]});
         }
       }
       std::ranges::stable_sort(
           edge, [](const Candidate& a, const Candidate& b) { return a.id / 4096 > b.id / 4096; });
       edge.resize(std::min(tied, edge.size()));
       kept.insert(kept.end(), edge.begin(), edge.end());
       keep_only(result, kept);
     }},
    {"bitmask-word-in-10-bits",
     "the bitmask's words are counted modulo 1024: id 32768 has the bit of id 0",
     By("mask/*/banned"),
     [](Row& row) {
       for (std::size_t word = 1024; word < row.allowed.size(); ++word) {
         row.allowed[word] = row.allowed[word % 1024];
       }
     }},
    {"radix-candidates-overflow", "SGLang issue #36807",
     "of more than 4096 candidates in the bucket of the threshold the last ones are lost",
     By("mask/all_equal/v32000/*"),
     [](Result& result, const Row& row) {
       const bool filtered = row.parameters.top_k > 0 &&
                             static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
       if (result.status != RowStatus::ok || result.support_size <= 4096 || !filtered) return;
       std::vector<Candidate> kept = ranked(result, row);
       kept.resize(4096);
       keep_only(result, kept);
     }},
};

constexpr Entry kRows[] = {
    {"row-number-in-16-bits",
     "row 65536 and those behind it have the parameters of row 0 and those behind it",
     By("replay/* tokens/*", Base::integers),
     [](Mutation& mutation) {
       mutation.parameters_row = [](const fairdraw_batch&, std::int64_t row) {
         return row % kUint16;
       };
     }},
    {"grid-ends-at-65535",
     "rows behind the 65535th, the limit of a grid's second dimension, repeat the last row's token",
     [](const fairdraw_batch& batch) {
       const std::int64_t last = 65534;
       for (std::int64_t at = last + 1; at < batch.outputs * batch.num_samples; ++at) {
         batch.tokens[at] = batch.tokens[last];
       }
     }},
    {"index-in-16-bits", "outputs that sample a row behind the 65535th sample one modulo 65536",
     [](fairdraw_batch& batch, Storage& storage) {
       if (batch.rows <= kUint16) return;
       change_indices(batch, storage, [](std::int32_t index, std::int64_t, std::int64_t) {
         return index % static_cast<std::int32_t>(kUint16);
       });
     }},
    {"row-offset-in-int32", "vLLM PR #46560, PR #48055; SGLang PR #35571",
     "the offset of a row is a 32-bit product, and wraps to another row's logits",
     [](fairdraw_batch& batch) {
       if (batch.rows < 2 || (batch.rows - 1) * batch.row_stride <= INT32_MAX) return;
       batch.row_stride = 0;  // with a stride of 0, reads stay within the rows in memory
     }},
    {"samples-beyond-1024-repeat",
     "an output's samples come from a buffer of 1024, and repeat behind it",
     By("streams/* chi_squared/*"),
     [](const WordKey& of) { return draw_word(of, of.seed, of.offset, of.index % 1024); }},
};

}  // namespace

std::vector<Mutant> shape_mutants() {
  return joined({mutants_of("shapes", "mask/*", Base::distribution, kVocabularies),
                 mutants_of("shapes", "replay/*", Base::distribution, kRows)});
}

}  // namespace fairdraw::suites
