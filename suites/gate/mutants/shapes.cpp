// Sizes at which a kernel's indices, tiles or buffers end: what is right below them is wrong above.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Weights = std::vector<std::uint64_t>;

constexpr std::int64_t kUint16 = 65536;

// What nothing can be drawn from: of logits, of probabilities.
float nothing(const Row& row) { return row.from_probs ? 0.0F : kOut; }

// Ids from `first` on are never looked at. One stays.
void drop_from(Row& row, std::size_t first) {
  if (first == 0 || first >= row.logits.size()) return;
  std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>(first), row.logits.end(),
            nothing(row));
}

// A mutant of rows whose vocabulary is `lost(vocab)` ids too long for it.
Mutant of_tail(MutantText text, std::size_t (*lost)(std::size_t vocab)) {
  return mutated_distribution(std::move(text), [lost](Mutation& mutation) {
    mutation.row = [lost](Row& row, const Place&) {
      drop_from(row, row.logits.size() - lost(row.logits.size()));
    };
  });
}

bool is_greedy(const Row& row) {
  return row.parameters.temperature == 0 || row.parameters.top_k == 1 || row.parameters.top_p == 0;
}

// The greedy token becomes the largest of `visible` ids: those that the reduction looks at.
Mutant of_argmax(MutantText text, bool (*visible)(std::size_t id, std::size_t vocab)) {
  return mutated_distribution(std::move(text), [visible](Mutation& mutation) {
    mutation.result = [visible](Result& result, const Row& row, const Place&) {
      if (result.status != RowStatus::ok || !is_greedy(row) || row.from_probs) return;
      const std::vector<Candidate> best = ranked(result, row);
      if (best.empty() || visible(static_cast<std::size_t>(best.front().id), row.logits.size())) {
        return;
      }
      std::size_t found = row.logits.size();
      for (std::size_t id = 0; id < row.logits.size(); ++id) {
        const bool allowed = row.allowed.empty() || ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
        if (!allowed || !visible(id, row.logits.size()) || row.logits[id] == kOut) continue;
        if (found == row.logits.size() || row.logits[id] > row.logits[found]) found = id;
      }
      if (found < row.logits.size()) {
        keep_only(result, {{static_cast<std::int32_t>(found), row.logits[found], 0}});
      }
    };
  });
}

std::vector<Mutant> vocabularies() {
  const std::string kind = "shapes";
  return {
      of_tail({"vector-tail-lost",
               "systematic",
               kind,
               "the ids behind the last whole vector of four are lost where a row needs "
               "more than one block of 1024",
               {"mask/*"}},
              [](std::size_t vocab) { return vocab > 1024 ? vocab % 4 : 0; }),
      of_tail({"lone-last-id-lost",
               "systematic",
               kind,
               "a last word of the bitmask with one id in it is not looked at",
               {"mask/*"}},
              [](std::size_t vocab) -> std::size_t { return vocab % 32 == 1 ? 1 : 0; }),
      of_tail({"tile-of-one-lost",
               "systematic",
               kind,
               "a last tile of 256 with one id in it is not launched",
               {"mask/*"}},
              [](std::size_t vocab) -> std::size_t { return vocab % 256 == 1 ? 1 : 0; }),
      of_tail({"last-of-full-block-lost",
               "systematic",
               kind,
               "a row that fills its last block of 512 to the last thread but one loses "
               "that one",
               {"mask/*"}},
              [](std::size_t vocab) -> std::size_t { return vocab % 512 == 511 ? 1 : 0; }),
      of_tail({"iota-half-width",
               "tt-metal issue #52928",
               kind,
               "the list of ids is half as wide as rows of more than 65536 logits",
               {"mask/*/v131072/*"}},
              [](std::size_t vocab) -> std::size_t { return vocab > 65536 ? vocab / 2 : 0; }),
      of_tail({"limit-of-200000-ids",
               "systematic",
               kind,
               "a table of 200000 ids, enough for the vocabularies of its day",
               {"mask/*"}},
              [](std::size_t vocab) -> std::size_t { return vocab > 200000 ? vocab - 200000 : 0; }),
      of_argmax({"argmax-skips-block-starts",
                 "systematic",
                 kind,
                 "the reduction over blocks of 1024 starts each block but the first with "
                 "its second id",
                 {"mask/*"}},
                [](std::size_t id, std::size_t) { return id == 0 || id % 1024 != 0; }),
      of_argmax({"argmax-skips-tile-ends",
                 "systematic",
                 kind,
                 "the reduction over tiles of 4096 leaves out each tile's last id",
                 {"mask/*"}},
                [](std::size_t id, std::size_t) { return id % 4096 != 4095; }),
      mutated_distribution(
          {"argmax-ties-to-later-tile",
           "PyTorch #93630, tt-metal PR #50687",
           kind,
           "of equal maxima in two tiles of 65536 ids the later one wins",
           {"mask/*/v131072/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (result.greedy_token < 0 || row.from_probs) return;
              const auto first = static_cast<std::size_t>(result.greedy_token);
              std::size_t best = first;
              for (std::size_t id = first; id < row.logits.size(); ++id) {
                const bool allowed =
                    row.allowed.empty() || ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
                if (allowed && row.logits[id] == row.logits[first] && id / 65536 > best / 65536)
                  best = id;
              }
              if (best != first) {
                keep_only(result, {{static_cast<std::int32_t>(best), row.logits[best], 0}});
              }
            };
          }),
      mutated_integers(
          {"lowest-id-ties-by-tile",
           "systematic",
           kind,
           "exactly k: the tied are taken from the last tile of 4096 ids first",
           {"mask/*lowest_id*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (row.tie_rule != TieRule::lowest_id || is_greedy(row) || row.from_probs) return;
              if (row.logits.size() <= 4096 || result.status != RowStatus::ok) return;
              std::vector<Candidate> kept = ranked(result, row);
              const float cut = kept.back().value;
              std::size_t tied = 0;
              while (!kept.empty() && kept.back().value == cut) kept.pop_back(), ++tied;
              std::vector<Candidate> edge;
              for (std::size_t id = 0; id < row.logits.size(); ++id) {
                const bool allowed =
                    row.allowed.empty() || ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
                if (allowed && row.logits[id] == cut) {
                  edge.push_back({static_cast<std::int32_t>(id), cut, result.weight[id]});
                }
              }
              std::stable_sort(
                  edge.begin(), edge.end(),
                  [](const Candidate& a, const Candidate& b) { return a.id / 4096 > b.id / 4096; });
              edge.resize(std::min(tied, edge.size()));
              kept.insert(kept.end(), edge.begin(), edge.end());
              keep_only(result, kept);
            };
          }),
      mutated_distribution(
          {"bitmask-word-in-10-bits",
           "systematic",
           kind,
           "the bitmask's words are counted modulo 1024: id 32768 has the bit of id 0",
           {"mask/*/banned"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              for (std::size_t word = 1024; word < row.allowed.size(); ++word) {
                row.allowed[word] = row.allowed[word % 1024];
              }
            };
          }),
      mutated_distribution(
          {"radix-candidates-overflow",
           "SGLang issue #36807",
           kind,
           "of more than 4096 candidates in the bucket of the threshold the last ones are lost",
           {"mask/all_equal/v32000/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              const bool filtered =
                  row.parameters.top_k > 0 &&
                  static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
              if (result.status != RowStatus::ok || result.support_size <= 4096 || !filtered)
                return;
              std::vector<Candidate> kept = ranked(result, row);
              kept.resize(4096);
              keep_only(result, kept);
            };
          }),
  };
}

std::vector<Mutant> rows() {
  const std::string kind = "shapes";
  return {
      mutated_integers(
          {"row-number-in-16-bits",
           "systematic",
           kind,
           "row 65536 and those behind it have the parameters of row 0 and those behind it",
           {"replay/*", "tokens/*"}},
          [](Mutation& mutation) {
            mutation.parameters_row = [](const fairdraw_batch&, std::int64_t row) {
              return row % kUint16;
            };
          }),
      mutated_distribution({"grid-ends-at-65535",
                            "systematic",
                            kind,
                            "rows behind the 65535th, the limit of a grid's second dimension, "
                            "repeat the last row's token",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             mutation.finish = [](const fairdraw_batch& batch) {
                               const std::int64_t last = 65534;
                               for (std::int64_t at = last + 1;
                                    at < batch.outputs * batch.num_samples; ++at) {
                                 batch.tokens[at] = batch.tokens[last];
                               }
                             };
                           }),
      mutated_distribution({"index-in-16-bits",
                            "systematic",
                            kind,
                            "outputs that sample a row behind the 65535th sample one modulo 65536",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             mutation.call = [](fairdraw_batch& batch, Storage& storage) {
                               if (batch.indices == nullptr || batch.rows <= kUint16) return;
                               std::vector<std::int32_t> wrapped(batch.indices,
                                                                 batch.indices + batch.outputs);
                               for (std::int32_t& index : wrapped)
                                 index %= static_cast<std::int32_t>(kUint16);
                               batch.indices = storage.keep(std::move(wrapped));
                             };
                           }),
      mutated_distribution(
          {"row-offset-in-int32",
           "vLLM PR #46560, PR #48055; SGLang PR #35571",
           kind,
           "the offset of a row is a 32-bit product, and wraps to another row's logits",
           {"replay/*"}},
          [](Mutation& mutation) {
            mutation.call = [](fairdraw_batch& batch, Storage&) {
              if (batch.rows < 2 || (batch.rows - 1) * batch.row_stride <= INT32_MAX) return;
              batch.row_stride = 0;  // any row that is in memory
            };
          }),
      mutated_distribution({"samples-beyond-1024-repeat",
                            "systematic",
                            kind,
                            "an output's samples come from a buffer of 1024, and repeat behind it",
                            {"streams/*", "chi_squared/*"}},
                           [](Mutation& mutation) {
                             mutation.word = [](std::uint64_t seed, std::uint64_t offset,
                                                std::uint32_t index, std::int64_t) {
                               return harness::random_word(seed, offset, Purpose::draw,
                                                           index % 1024);
                             };
                           }),
  };
}

}  // namespace

std::vector<Mutant> shape_mutants() { return joined({vocabularies(), rows()}); }

}  // namespace fairdraw::suites
