#include "suites/gate/cases/serving_cases.h"

#include <utility>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

Input input_of(Family family, std::int64_t vocab, DType dtype = DType::float32) {
  return {.family = family, .captured = nullptr, .vocab = vocab, .dtype = dtype};
}

void add(std::vector<NamedCase>& cases, Case entry, const char* name,
         std::vector<Operation> operations) {
  entry.operations = std::move(operations);
  cases.push_back({std::move(entry), name});
}

// Adds cases with penalties, biases and bans, before all filters and also without filters.
void add_processing(std::vector<NamedCase>& cases) {
  const auto everyday = [&cases](Suite suite, const Input& input, std::int64_t rows,
                                 bool banned = false) {
    add(cases,
        {.suite = suite,
         .check = Check::processing,
         .input = input,
         .banned_tokens = banned,
         .rows = rows},
        "everyday", everyday_operations());
  };
  for (const Family family : {Family::gaussian, Family::ties_at_k, Family::subnormal}) {
    everyday(Suite::smoke, input_of(family, 31), 512);
    everyday(Suite::gate, input_of(family, 1000), 512);
  }
  // In these rows, processing applies penalties and biases to -inf, and most other tokens are
  // banned.
  everyday(Suite::smoke, input_of(Family::few_allowed, 31), 128);
  everyday(Suite::gate, input_of(Family::masked, 1000), 128);
  everyday(Suite::smoke, input_of(Family::gaussian_wide, 1000), 128);
  everyday(Suite::smoke, input_of(Family::gaussian_wide, 1003), 128, /*banned=*/true);
  everyday(Suite::gate, input_of(Family::huge_range, 1000), 256);
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    everyday(Suite::smoke, input_of(Family::gaussian, 65, dtype), 256);
    everyday(Suite::gate, input_of(Family::peaked, 32000, dtype), 32, /*banned=*/true);
  }
  everyday(Suite::gate, input_of(Family::gaussian, 32000), 32);
  everyday(Suite::gate, input_of(Family::peaked, kLargeVocab), 16);
  // Without filters, every probability is compared. Without filters, a product that is not rounded
  // is visible in one row of about 300.
  add(cases,
      {.suite = Suite::smoke,
       .check = Check::processing,
       .input = input_of(Family::gaussian, 33),
       .rows = 6144},
      "unfiltered", operations_with({}, 33));
  // The caller's flush-to-zero and rounding modes must not affect the processing steps, either.
  for (const Family family : {Family::subnormal, Family::gaussian_wide}) {
    add(cases,
        {.suite = family == Family::subnormal ? Suite::smoke : Suite::gate,
         .check = Check::float_environment,
         .input = input_of(family, 1000),
         .processed = true},
        "everyday", everyday_operations());
  }
}

// Adds cases of log-probabilities in the forms that engines report.
void add_logprobs(std::vector<NamedCase>& cases) {
  const auto report = [&cases](Suite suite, const Input& input, const char* name,
                               const std::vector<Operation>& operations, bool banned = false) {
    add(cases, {.suite = suite, .check = Check::logprobs, .input = input, .banned_tokens = banned},
        name, operations);
  };
  // Vocabularies have few or many ids, so that top n may exceed the vocabulary, the allowed tokens
  // and the kept tokens.
  for (const std::int64_t vocab : {1, 2, 31}) {
    report(Suite::smoke, input_of(Family::gaussian, vocab), "edges", edge_operations(vocab));
  }
  for (const Family family : {Family::gaussian_wide, Family::ties_at_k, Family::masked}) {
    report(Suite::smoke, input_of(family, 1000), "edges", edge_operations(1000));
    report(Suite::smoke, input_of(family, 1000), "everyday", everyday_operations(), true);
  }
  for (const Family family : {Family::huge_range, Family::subnormal, Family::all_equal}) {
    report(Suite::gate, input_of(family, 1000), "edges", edge_operations(1000));
  }
  for (const Family family : {Family::peaked, Family::bf16_rounded}) {
    report(Suite::gate, input_of(family, 32000), "everyday", everyday_operations());
  }
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    report(Suite::smoke, input_of(Family::gaussian_wide, 1000, dtype), "everyday",
           everyday_operations());
    report(Suite::gate, input_of(Family::gaussian_wide, 1000, dtype), "everyday",
           everyday_operations(), true);
  }
  for (const char* rule : {"lowest_id", "joint"}) {
    std::vector<Operation> operations = edge_operations(1000);
    for (Operation& operation : operations) {
      operation.tie_rule = parse_operation(rule).tie_rule;
      operation.filter_order = parse_operation(rule).filter_order;
    }
    const std::string name = std::string("edges+") + rule;
    report(Suite::gate, input_of(Family::ties_at_k, 1000), name.c_str(), operations);
  }
}

// Adds cases with logits processing and log-probabilities in one call. Raw modes report values of
// the input row, and processed modes values of the row that is drawn from. With few ids, most ids
// are in the history, biased or banned, so that ties of the input row break and new ties arise.
void add_processed_logprobs(std::vector<NamedCase>& cases) {
  const auto report = [&cases](Suite suite, const Input& input, const char* name,
                               const std::vector<Operation>& operations, bool banned = false) {
    add(cases,
        {.suite = suite,
         .check = Check::logprobs,
         .input = input,
         .banned_tokens = banned,
         .processed = true,
         .rows = 96},
        name, operations);
  };
  for (const std::int64_t vocab : {1, 2, 31}) {
    report(Suite::smoke, input_of(Family::gaussian, vocab), "everyday", everyday_operations());
  }
  report(Suite::smoke, input_of(Family::ties_at_k, 33), "everyday", everyday_operations(), true);
  report(Suite::smoke, input_of(Family::gaussian_wide, 1000), "edges", edge_operations(1000));
  report(Suite::gate, input_of(Family::ties_at_k, 1000), "everyday", everyday_operations());
  report(Suite::gate, input_of(Family::subnormal, 65), "edges", edge_operations(65));
  report(Suite::gate, input_of(Family::huge_range, 65), "everyday", everyday_operations(), true);
  report(Suite::gate, input_of(Family::gaussian, 33), "unfiltered", operations_with({}, 33));
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    report(Suite::gate, input_of(Family::gaussian_wide, 65, dtype), "everyday",
           everyday_operations());
  }
}

}  // namespace

std::vector<NamedCase> serving_cases() {
  std::vector<NamedCase> cases;
  add_processing(cases);
  add_logprobs(cases);
  add_processed_logprobs(cases);
  return cases;
}

}  // namespace fairdraw::suites
