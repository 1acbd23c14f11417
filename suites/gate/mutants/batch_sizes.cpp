// Kernels that are chosen by the number of rows: the one for small batches is right, and another
// one is not.
#include <algorithm>
#include <cmath>
#include <memory>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Claim = MutatedModel::Claim;

const std::string kBatchSize = "batch-size";

// Ids behind the last whole tile are not read.
void drop_last_tile(Row& row, std::size_t tile) {
  const std::size_t whole = row.logits.size() / tile * tile;
  if (whole == 0) return;
  std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>(whole), row.logits.end(),
            row.from_probs ? 0.0F : kOut);
}

// Of the tokens that tie with the last one that stays, only the first stays.
void lose_ties(Result& result, const Row& row) {
  std::vector<Candidate> list = ranked(result, row);
  if (result.status != RowStatus::ok || list.size() < 2) return;
  const float last = list.back().value;
  const auto first = std::find_if(list.begin(), list.end(),
                                  [last](const Candidate& token) { return token.value == last; });
  list.erase(first + 1, list.end());
  keep_only(result, list);
}

// Rows from `from` on have the temperature of row 0.
void first_temperature(fairdraw_batch& batch, Storage& storage, std::int64_t from) {
  if (batch.rows <= from) return;
  std::vector<float> temperature(batch.temperature, batch.temperature + batch.rows);
  std::fill(temperature.begin() + static_cast<std::ptrdiff_t>(from), temperature.end(),
            temperature.front());
  batch.temperature = storage.keep(std::move(temperature));
}

// The bugs, each on a sampler of every claim that it can be seen in.
struct Bug {
  const char *name, *source, *wrong;
  void (*set)(Mutation&);
  const char* by_distribution = "batches_law/gaussian_wide/*";  // what finds it without seeds
};

const Bug kBugs[] = {
    {"last-tile-from-64-rows", "systematic",
     "from 64 rows on a kernel is used that leaves out the last, partial tile of 256",
     [](Mutation& mutation) {
       mutation.row = [](Row& row, const Place& place) {
         if (place.call->rows >= 64) drop_last_tile(row, 256);
       };
     }},
    {"first-temperature-beyond-132-rows", "systematic",
     "rows beyond the first for each multiprocessor, of 132, have the temperature of row 0",
     [](Mutation& mutation) {
       mutation.call = [](fairdraw_batch& batch, Storage& storage) {
         first_temperature(batch, storage, 132);
       };
     }},
    {"split-row-loses-ties", "systematic",
     "a row alone is split over blocks, and of ties at the boundary one block's first stays",
     [](Mutation& mutation) {
       mutation.result = [](Result& result, const Row& row, const Place& place) {
         const bool filters = row.parameters.top_k > 1 || row.parameters.top_p < 1;
         if (place.call->rows == 1 && filters && row.parameters.temperature != 0) {
           lose_ties(result, row);
         }
       };
     },
     "batches_law/ties_at_k/*"},
    {"row-number-of-8-bits", "systematic", "parameters are looked up by the row's number in 8 bits",
     [](Mutation& mutation) {
       mutation.parameters_row = [](const fairdraw_batch&, std::int64_t row) { return row % 256; };
     }},
    {"grid-of-512-rows", "systematic", "the grid ends at 512 rows: those behind are not drawn",
     [](Mutation& mutation) {
       mutation.finish = [](const fairdraw_batch& batch) {
         for (std::int64_t output = 512; output < batch.outputs; ++output) {
           std::fill_n(batch.tokens + output * batch.num_samples, batch.num_samples, 0);
         }
       };
     }},
    {"nucleus-off-in-groups-of-three", "systematic",
     "where the rows are a multiple of 3 and above 64 the nucleus is left out",
     [](Mutation& mutation) {
       mutation.row = [](Row& row, const Place& place) {
         if (place.call->rows > 64 && place.call->rows % 3 == 0) row.parameters.top_p = 1;
       };
     }},
};

// Bugs of one batch size in what `batches` does not ask for: rows apart, log-probabilities, the
// caller's float environment, zeros with a sign, bad rows, drafts. Below that size, and in calls of
// 16384 rows and more, another kernel is used that is right.
constexpr std::int64_t kMedium = 128, kLarge = 16384;

bool is_medium(std::int64_t rows) { return rows >= kMedium && rows < kLarge; }

// Values of rows from kMedium on are those of the row so many rows before.
template <class T>
const T* repeated(const T* values, std::int64_t rows, Storage& storage) {
  std::vector<T> all(values, values + rows);
  for (std::size_t row = kMedium; row < all.size(); ++row) all[row] = all[row - kMedium];
  return storage.keep(std::move(all));
}

void assume_contiguous_rows(Mutation& mutation) {
  mutation.call = [](fairdraw_batch& batch, Storage&) {
    if (is_medium(batch.rows)) batch.row_stride = batch.vocab;
  };
}

void lose_last_of_top(Mutation& mutation) {
  mutation.finish = [](const fairdraw_batch& batch) {
    if (!is_medium(batch.rows) || batch.report_top_ids == nullptr || batch.top_n == 0) return;
    for (std::int64_t output = kMedium; output < batch.outputs; ++output) {
      const std::int64_t last = (output + 1) * batch.top_n - 1;
      batch.report_top_ids[last] = -1;
      batch.report_top_values[last] = kOut;
    }
  };
}

// A thread of a pool, which is used from this many rows on, has the caller's modes.
void follow_callers_rounding(Mutation& mutation) {
  const auto rounds_up = std::make_shared<bool>(false);
  mutation.call = [rounds_up](fairdraw_batch&, Storage&) {
    const volatile float tiny = 0x1p-40F;
    *rounds_up = 1 + tiny > 1;
  };
  mutation.row = [rounds_up](Row& row, const Place& place) {
    if (is_medium(place.call->rows) && *rounds_up) row.parameters.top_k = 3;
  };
}

void see_sign_of_zero(Mutation& mutation) {
  mutation.row = [](Row& row, const Place& place) {
    const float temperature = row.parameters.temperature;
    if (is_medium(place.call->rows) && temperature == 0 && std::signbit(temperature)) {
      row.parameters.temperature = 1;
    }
  };
}

void take_any_temperature(Mutation& mutation) {
  mutation.row = [](Row& row, const Place& place) {
    const float temperature = row.parameters.temperature;
    const bool good = temperature >= 0 && std::isfinite(temperature);
    if (is_medium(place.call->rows) && !good) row.parameters.temperature = 1;
  };
}

void repeat_chain_seeds(Mutation& mutation) {
  mutation.chain_call = [](fairdraw_chain& call, Storage& storage) {
    if (!is_medium(call.batch) || call.seed_is_scalar != 0) return;
    call.seed = repeated(call.seed, call.batch, storage);
  };
}

void repeat_request_temperatures(Mutation& mutation) {
  mutation.speculation_call = [](fairdraw_verification& call, Storage& storage) {
    if (!is_medium(call.batch)) return;
    call.temperature = repeated(call.temperature, call.batch, storage);
  };
}

std::vector<Mutant> mutants_of_other_checks() {
  const auto text = [](const char* name, const char* wrong, const char* found_by) {
    return MutantText{name, "systematic", kBatchSize, wrong, {found_by}};
  };
  return {
      mutated_distribution(
          text("row-stride-assumed-from-128-rows",
               "from 128 rows on rows are taken to lie one vocabulary apart", "replay/*/b129"),
          assume_contiguous_rows),
      mutated_integers(
          text("top-n-short-from-128-rows",
               "rows from the 128th on have one token less among the top n", "logprobs/*/b129"),
          lose_last_of_top),
      mutated_distribution(text("callers-rounding-from-128-rows",
                                "from 128 rows on the caller's rounding mode changes the filter",
                                "float_environment/*/b129"),
                           follow_callers_rounding),
      mutated_integers(
          text("minus-zero-draws-from-128-rows",
               "from 128 rows on a temperature of -0 is not greedy", "metamorphic/*/b129"),
          see_sign_of_zero),
      mutated_integers(
          text("temperature-not-checked-from-128-rows",
               "from 128 rows on a negative temperature, or none that is a number, is 1",
               "status/*/b129"),
          take_any_temperature),
      mutated_integers(text("chain-seeds-repeat-from-128-chains",
                            "chain 128 has the seed of chain 0", "chain/*/b129"),
                       repeat_chain_seeds),
      mutated_integers(text("verify-temperatures-repeat-from-128-requests",
                            "request 128 has the temperature of request 0", "verify/*/b129"),
                       repeat_request_temperatures),
  };
}

}  // namespace

std::vector<Mutant> batch_size_mutants() {
  std::vector<Mutant> all = mutants_of_other_checks();
  for (const Bug& bug : kBugs) {
    const auto text = [&bug](const char* prefix, const char* found_by) {
      return MutantText{
          std::string(prefix) + bug.name, bug.source, kBatchSize, bug.wrong, {found_by}};
    };
    all.push_back(mutated_integers(text("", "batches/*"), bug.set));
    all.push_back(mutated_tokens_only(text("tokens-", "batches/*"), Claim::distribution, bug.set));
    all.push_back(
        mutated_tokens_only(text("engine-", bug.by_distribution), Claim::generator, bug.set));
  }
  return all;
}

}  // namespace fairdraw::suites
