// Generators of logits processing, and of requests with drafted tokens.
#include <algorithm>

#include "harness/inputs/processing_rows.h"
#include "harness/run/checks/speculation/speculation_rows.h"
#include "suites/gate/fuzz/generate.h"
#include "suites/gate/fuzz/shrink.h"
#include "suites/gate/fuzz/subject.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::Dice;
using harness::SamplerDescription;

FuzzCase speculation_case(Dice& dice, const SamplerDescription& sampler,
                          const GenerateOptions& options) {
  FuzzCase result;
  result.kind = CaseKind::speculation;
  result.salt = dice.bits();
  const std::int64_t vocab = random_vocab(dice, std::min<std::int64_t>(options.max_vocab, 257));
  DType dtype = DType::float32;
  if (sampler.float16 && dice.once_in(6)) dtype = DType::float16;
  if (sampler.bfloat16 && dice.once_in(6)) dtype = DType::bfloat16;
  constexpr std::int64_t kRows = 13;  // a prime, so that requests combine rows in many ways
  harness::CheckInput input;
  harness::Request rows;
  rows.dtype = dtype;
  rows.vocab = vocab;
  const bool processed = sampler.speculation_processing && dice.once_in(2);
  for (; rows.rows < kRows; ++rows.rows) {
    std::vector<float> row = random_logits(dice, vocab, dtype);
    input.parameters.push_back(random_parameters(dice, row));
    rows.logits.insert(rows.logits.end(), row.begin(), row.end());
    if (processed) input.processing.push_back(generate_processing(dice, row, dtype));
  }
  const auto source = rows_of(rows);
  input.logits = source.get();
  input.seed = dice.bits();
  input.banned_tokens = sampler.allowed_mask && dice.once_in(3);
  if (sampler.lowest_id_ties && dice.once_in(4)) input.tie_rule = TieRule::lowest_id;
  if (sampler.joint_order && dice.once_in(4)) input.filter_order = FilterOrder::joint;
  harness::SpeculationShape shape;
  shape.trees = sampler.draft_trees && dice.once_in(4);
  if (!shape.trees)
    shape.distribution = dice.pick({DraftLaw::none, DraftLaw::probs, DraftLaw::logits});
  shape.packed = dice.once_in(2);
  harness::SpeculationRequest& request = result.speculation;
  const auto first = static_cast<std::int64_t>(dice.below(kRows));
  request = harness::make_speculations(input, first, dice.between(1, 3), shape);
  if (!sampler.active_rows || !dice.once_in(3)) request.active.clear();
  request.seed_is_scalar = dice.once_in(4);
  if (request.seed_is_scalar) {
    request.seed.resize(1);
    request.offset.resize(1);
  }
  return result;
}

}  // namespace

reference::RowProcessing generate_processing(Dice& dice, std::span<float> row, DType dtype) {
  reference::RowProcessing processing =
      harness::random_processing(dice.engine(), static_cast<std::int64_t>(row.size()));
  if (!dice.once_in(16)) return processing;
  const auto fault = static_cast<int>(dice.below(harness::kProcessingFaults - 1)) + 1;
  harness::mutate(processing, static_cast<harness::ProcessingFault>(fault), row);
  for (float& value : row) value = harness::rounded_to(dtype, value);
  return processing;
}

rc::Gen<FuzzCase> speculation_cases(const SamplerDescription& sampler,
                                    const GenerateOptions& options) {
  return rc::Gen<FuzzCase>([sampler, options](const rc::Random& random, int) {
    Dice dice(rc::Random(random).next());
    return with_shrinks(speculation_case(dice, sampler, options));
  });
}

}  // namespace fairdraw::suites::fuzz
