// Weights by tiles (reference/integer_model.h), with a step of their arithmetic wrong. Words at the
// ends of intervals show all of it, in samplers that take words. In others too small for the gate's
// rows is a dropped tile of 48 octaves below alone; the kernels' known answers have such tiles.
//
// No mutant takes a tile's octave from the tokens that its filters leave. It would be right: what
// filters keep is the front of the ranking, so that a tile with a survivor keeps its largest token.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using reference::TokenOctaves;

// Calls `weigh(id, octaves)` for each token that has some, banned or not.
template <typename Weigh>
void for_each_token(const Row& row, Weigh weigh) {
  const float temperature = row.parameters.temperature == 0 ? 1 : row.parameters.temperature;
  const float scale = reference::octaves_per_logit(temperature);
  for (std::size_t id = 0; id < row.logits.size(); ++id) {
    const float value = row.logits[id];
    if (row.from_probs ? value <= 0 : std::isinf(value)) continue;
    weigh(id, row.from_probs ? reference::octaves_of_prob(value)
                             : reference::octaves_of_logit(value, scale));
  }
}

bool is_allowed(const Row& row, std::size_t id) {
  return row.allowed.empty() || ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
}

// A mutant whose weights are others; what the filters keep stays. Rows that need processing first
// are left alone, and so are greedy ones: nothing is weighed there.
Mutant of_tiles(MutantText text, void (*change)(Result&, const Row&)) {
  return mutated_integers(std::move(text), [change](Mutation& mutation) {
    mutation.result = [change](Result& result, const Row& row, const Place&) {
      if (result.status != RowStatus::ok || result.greedy_token >= 0 || row.processing) return;
      change(result, row);
      result.total = result.total_unfiltered = 0;
      for (std::size_t id = 0; id < result.weight.size(); ++id) {
        result.total_unfiltered += result.weight[id];
        if (result.mask[id] != 0) result.total += result.weight[id];
      }
    };
  });
}

void weigh_relative_to_the_row(Result& result, const Row&) {
  for (std::size_t id = 0; id < result.weight.size(); ++id) {
    result.weight[id] = result.speculation_weight[id];
  }
}

void let_banned_tokens_set_octaves(Result& result, const Row& row) {
  std::vector<double> octave(result.tiles.size(), -std::numeric_limits<double>::infinity());
  double largest = octave.front();
  for_each_token(row, [&](std::size_t id, const TokenOctaves& token) {
    double& tile = octave[id / reference::kIdsOfATile];
    tile = std::max(tile, token.whole);
    largest = std::max(largest, token.whole);
  });
  for_each_token(row, [&](std::size_t id, const TokenOctaves& token) {
    if (!is_allowed(row, id)) return;
    const double tile = octave[id / reference::kIdsOfATile];
    result.weight[id] =
        reference::weight_in_row(reference::weight_in_tile(token, tile), tile, largest);
  });
}

void drop_tiles_48_below(Result& result, const Row&) {
  for (std::size_t id = 0; id < result.weight.size(); ++id) {
    const double gap = result.octave - result.tiles[id / reference::kIdsOfATile].octave;
    if (gap == 48) result.weight[id] = 0;
  }
}

void wrap_shifts_at_64(Result& result, const Row& row) {
  for_each_token(row, [&](std::size_t id, const TokenOctaves& token) {
    if (!is_allowed(row, id)) return;
    const double tile = result.tiles[id / reference::kIdsOfATile].octave;
    const TokenOctaves wrapped{tile - std::fmod(tile - token.whole, 64), token.significand};
    result.weight[id] =
        reference::weight_in_row(reference::weight_in_tile(wrapped, tile), tile, result.octave);
  });
}

}  // namespace

std::vector<Mutant> tile_weight_mutants() {
  const std::string kind = "numeric-precision";
  const std::vector<std::string> scripted = {"scripted/gaussian/v32000/none/t0.03"};
  return {
      of_tiles({"weights-relative-to-the-row",
                "systematic",
                kind,
                "weights are cut at 2^-39 of the row's largest, not by tiles",
                {scripted.front(), "probabilities/gaussian_wide/v1000/edges"}},
               weigh_relative_to_the_row),
      of_tiles(
          {"banned-tokens-set-octaves",
           "systematic",
           kind,
           "octaves of tiles and of the row are of all tokens, banned ones included",
           {"scripted/gaussian/v32000/none/t0.03/banned", "tokens/gaussian_wide/v1000/*/banned"}},
          let_banned_tokens_set_octaves),
      of_tiles(
          {"tiles-48-below-dropped", "systematic", kind,
           "a tile counts nothing from 48 octaves below the row's largest, not from 49", scripted},
          drop_tiles_48_below),
      of_tiles({"shift-wraps-at-64",
                "systematic",
                kind,
                "a token 64 octaves below its tile's largest is shifted by none, one of 65 by one",
                {scripted.front(), "tokens/huge_range/*/edges"}},
               wrap_shifts_at_64),
      mutated_integers(
          {"bonus-by-tiles",
           "systematic",
           kind,
           "a chain's bonus is drawn by tiles, and not by its weights in speculation",
           {"chain/head_and_tail/v64/none/t1", "chain/*"}},
          [](Mutation& mutation) {
            mutation.chain_verified = [](reference::ChainOutcome& outcome, const Chain& chain) {
              const std::size_t n = chain.draft_tokens.size();
              if (outcome.status != RowStatus::ok) return;
              if (outcome.emitted != static_cast<std::int32_t>(n)) return;
              const auto target = std::span(chain.target_probs).subspan(n * chain.vocab);
              outcome.tokens[n] =
                  reference::integer_model_from_probs(target, {}).token_for(chain.bonus_word);
            };
          }),
  };
}

}  // namespace fairdraw::suites
