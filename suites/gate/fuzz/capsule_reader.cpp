#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/logits_source.h"
#include "harness/statistics/compensated_sum.h"
#include "suites/gate/fuzz/capsule.h"
#include "suites/gate/fuzz/serving_capsules.h"
#include "suites/gate/fuzz/strict_json.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::words_for;

constexpr std::size_t kLongestText = 4096;

void read_rows(Fields& fields, harness::Request& request) {
  request.input =
      static_cast<harness::RowInput>(fields.choice("input", {"logits", "probabilities"}));
  request.dtype = static_cast<DType>(fields.choice("dtype", {"float32", "float16", "bfloat16"}));
  request.tie_rule = static_cast<TieRule>(fields.choice("tie_rule", {"keep_all", "lowest_id"}));
  request.filter_order =
      static_cast<FilterOrder>(fields.choice("filter_order", {"top_k_first", "joint"}));
  request.rows = fields.integer("rows", 0, kMaxCaseOutputs);
  request.vocab = fields.integer("vocab", 1, kMaxVocab);
  const std::int64_t values =
      bounded_product(fields.place("vocab"), request.rows, request.vocab, kMaxCaseValues);
  request.row_stride = fields.integer("row_stride", 0, 2 * kMaxVocab);
  if (request.row_stride != 0 && request.row_stride < request.vocab) {
    bad_input(fields.place("row_stride"), fmt::format("is {}; expected 0, or at least vocab, {}",
                                                      request.row_stride, request.vocab));
  }
  bounded_product(fields.place("row_stride"), request.rows, request.row_stride, 2 * kMaxCaseValues);
  request.misalignment = fields.integer("misalignment", 0, 63);
  request.logits = fields.floats("values", values);
  expect_dtype(fields, "values", request.logits, request.vocab, request.dtype);
  request.parameters = read_parameters(fields, "parameters", request.rows);
  if (fields.has("allowed")) {
    for (const std::uint64_t word :
         fields.bit_runs("allowed", 8, request.rows * words_for(request.vocab))) {
      request.allowed.push_back(static_cast<std::uint32_t>(word));
    }
  }
}

void read_batch(Fields fields, FuzzCase& fuzz_case) {
  harness::Request& request = fuzz_case.request;
  fuzz_case.salt = fields.decimal("salt");
  read_rows(fields, request);
  if (fields.has("processing")) {
    if (request.input != harness::RowInput::logits) {
      bad_input(fields.place("processing"), "is there, and rows are probabilities");
    }
    request.processing = read_processing(fields, "processing", request.rows);
    if (fields.has("grown")) request.history_form.grown = fields.boolean("grown");
  }
  if (fields.has("active")) {
    for (const std::int64_t active : fields.integers("active", request.rows, 0, 1)) {
      request.active.push_back(static_cast<std::uint8_t>(active));
    }
  }
  if (fields.has("indices")) {
    request.with_indices = true;
    const Json& indices = fields.at("indices");
    const auto size = static_cast<std::int64_t>(indices.is_array() ? indices.size() : 0);
    if (size < 1 || size > kMaxCaseOutputs) {
      bad_input(fields.place("indices"),
                fmt::format("has {} entries; expected 1 to {}", size, kMaxCaseOutputs));
    }
    for (const std::int64_t index : fields.integers("indices", size, INT32_MIN, INT32_MAX)) {
      request.indices.push_back(static_cast<std::int32_t>(index));
    }
  }
  request.num_samples =
      static_cast<std::int32_t>(fields.integer("num_samples", 1, kMaxCaseOutputs));
  const std::int64_t outputs = request.outputs();
  bounded_product(fields.place("num_samples"), outputs, request.num_samples, kMaxCaseValues);
  request.seed_is_scalar = fields.boolean("seed_is_scalar");
  const std::int64_t seeds = request.seed_is_scalar ? 1 : outputs;
  request.seed = fields.decimals("seed", seeds);
  request.offset = fields.decimals("offset", seeds);
  if (fields.has("words")) {
    request.words = fields.decimals("words", outputs * request.num_samples);
  }
  fields.expect_no_other_field();
}

void read_distribution_case(Fields fields, FuzzCase& fuzz_case) {
  fuzz_case.salt = fields.decimal("salt");
  read_rows(fields, fuzz_case.request);
  if (fuzz_case.request.rows != 1) {
    bad_input(fields.place("rows"),
              fmt::format("is {}; a distribution has 1 row", fuzz_case.request.rows));
  }
  fuzz_case.draws = static_cast<std::uint64_t>(
      fields.integer("draws", 1, static_cast<std::int64_t>(kMaxDistributionDraws)));
  fields.expect_no_other_field();
}

void read_chain(Fields fields, FuzzCase& fuzz_case) {
  harness::ChainRequest& chain = fuzz_case.chain;
  fuzz_case.salt = fields.decimal("salt");
  chain.batch = fields.integer("batch", 0, kMaxCaseOutputs);
  chain.num_draft_tokens = fields.integer("num_draft_tokens", 0, 64);
  chain.vocab = fields.integer("vocab", 1, kMaxVocab);
  const std::int64_t n = chain.num_draft_tokens;
  const std::int64_t target =
      bounded_product(fields.place("vocab"), chain.batch * (n + 1), chain.vocab, kMaxCaseValues);
  chain.draft_probs = fields.floats("draft_probs", chain.batch * n * chain.vocab);
  chain.target_probs = fields.floats("target_probs", target);
  for (const std::int64_t token :
       fields.integers("draft_tokens", chain.batch * n, INT32_MIN, INT32_MAX)) {
    chain.draft_tokens.push_back(static_cast<std::int32_t>(token));
  }
  chain.seed_is_scalar = fields.boolean("seed_is_scalar");
  const std::int64_t seeds = chain.seed_is_scalar ? 1 : chain.batch;
  chain.seed = fields.decimals("seed", seeds);
  chain.offset = fields.decimals("offset", seeds);
  if (fields.has("bonus_words")) {
    chain.accept_words = fields.decimals("accept_words", chain.batch * n);
    chain.recover_words = fields.decimals("recover_words", chain.batch * n);
    chain.bonus_words = fields.decimals("bonus_words", chain.batch);
  }
  fields.expect_no_other_field();
}

// The recorded distribution: probabilities, each finite and not negative, of sum 1. A sum of V
// float64 that were rounded once each is off by at most 2^-53 of 1, and by the sum's own rounding.
void read_oracle(Fields fields, Capsule& capsule) {
  const std::int64_t vocab = capsule.fuzz_case.request.vocab;
  DrawDistribution distribution;
  statistics::CompensatedSum sum;
  for (const std::uint64_t bits : fields.bit_runs("probability", 16, vocab)) {
    const auto p = std::bit_cast<double>(bits);
    if (!(p >= 0 && p <= 1)) {
      bad_input(fields.place("probability"), fmt::format("has {} for token {}; expected 0 to 1", p,
                                                         distribution.probability.size()));
    }
    distribution.probability.push_back(p);
    sum.add(p);
  }
  constexpr double kRounding = 0x1p-51;
  if (!(std::fabs(sum.value() - 1) <= kRounding)) {
    bad_input(fields.place("probability"),
              fmt::format("sums to {:.17g}; expected 1 within 2^-51", sum.value()));
  }
  fields.expect_no_other_field();
  capsule.distribution = std::move(distribution);
}

void read_drawn(Fields fields, Capsule& capsule) {
  capsule.counted_draws = static_cast<std::uint64_t>(
      fields.integer("draws", 0, static_cast<std::int64_t>(kMaxDistributionDraws)));
  std::uint64_t sum = 0;
  for (const std::int64_t count :
       fields.integers("counts", capsule.fuzz_case.request.vocab, 0,
                       static_cast<std::int64_t>(kMaxDistributionDraws))) {
    capsule.counts.push_back(static_cast<std::uint64_t>(count));
    sum += static_cast<std::uint64_t>(count);
  }
  if (sum > capsule.counted_draws) {
    bad_input(fields.place("counts"),
              fmt::format("sum to {}, of {} draws", sum, capsule.counted_draws));
  }
  fields.expect_no_other_field();
}

}  // namespace

Capsule from_json(std::string_view text) {
  if (text.size() > kMaxCapsuleBytes) {
    throw harness::UsageError(fmt::format("capsule: has more than {} bytes", kMaxCapsuleBytes));
  }
  const Json json = parse_strictly(text);
  Fields root(json, "");
  if (const Json& version = root.at("schema_version"); version != kCapsuleVersion) {
    bad_input("/schema_version", "is " + shown(version) + "; this version reads 1");
  }
  Capsule capsule;
  capsule.fuzz_case.kind =
      static_cast<CaseKind>(root.choice("kind", {"batch", "chain", "law", "verification"}));
  Fields tool = root.object("tool");
  tool.choice("name", {"fairdraw"});
  capsule.tool_version = tool.text("version", kLongestText);
  tool.expect_no_other_field();
  capsule.sampler = root.text("sampler", kLongestText);
  capsule.message = root.text("message", kLongestText);

  capsule.semantics = root.text("semantics", kLongestText);
  try {
    harness::semantics_from_text(capsule.semantics);
  } catch (const harness::UsageError& error) {
    bad_input("/semantics", "is " + shown(Json(capsule.semantics)) + ": " + error.what());
  }
  capsule.property = root.text("property", kLongestText);
  const Property* property = nullptr;
  for (const Property& known : properties()) {
    if (known.name == capsule.property) property = &known;
  }
  if (property == nullptr) {
    bad_input("/property", "is " + shown(Json(capsule.property)) + ", which is no property");
  }
  if (property->kind != capsule.fuzz_case.kind) {
    bad_input("/property", fmt::format("is {}, which is not for kind {}", property->name,
                                       to_string(capsule.fuzz_case.kind)));
  }
  switch (capsule.fuzz_case.kind) {
    case CaseKind::batch:
      read_batch(root.object("case"), capsule.fuzz_case);
      break;
    case CaseKind::chain:
      read_chain(root.object("case"), capsule.fuzz_case);
      break;
    case CaseKind::distribution:
      read_distribution_case(root.object("case"), capsule.fuzz_case);
      read_oracle(root.object("oracle"), capsule);
      read_drawn(root.object("drawn"), capsule);
      break;
    case CaseKind::speculation:
      read_speculation(root.object("case"), capsule.fuzz_case);
      break;
  }
  root.expect_no_other_field();
  return capsule;
}

Judgement replay(const Capsule& capsule, harness::Sampler& sampler,
                 const reference::Semantics& semantics) {
  if (semantics.name != capsule.semantics) {
    bad_input("/semantics",
              fmt::format("is {}, and {} is judged by {}; --semantics says otherwise",
                          capsule.semantics, sampler.description().name, semantics.name));
  }
  Subject subject(sampler, semantics, capsule.fuzz_case);
  if (capsule.distribution) {
    const std::optional<DrawDistribution> distribution = distribution_of_case(subject);
    if (!distribution)
      bad_input("/oracle", "is there, but the row has no distribution under these semantics");
    double distance = 0;
    for (std::size_t id = 0; id < distribution->probability.size(); ++id) {
      distance +=
          std::fabs(distribution->probability[id] - capsule.distribution->probability[id]) / 2;
    }
    // The distribution of the integers and that of the reals are as close as the oracle's bound
    // says; on another machine libm may round exp otherwise, by some 2^-52 of each weight.
    const double allowed =
        harness::distribution_of(subject.bare_input(), capsule.fuzz_case.request, 0)
            .total_variation_bound +
        0x1p-48;
    if (!(distance <= allowed)) {
      bad_input(
          "/oracle/probability",
          fmt::format("is {:.3g} in total variation from the distribution of semantics {}; at most "
                      "{:.1e} is allowed",
                      distance, semantics.name, allowed));
    }
  }
  return judge(find_property(capsule.property), subject);
}

}  // namespace fairdraw::suites::fuzz
