#include "reports/tests/sample_records.h"

#include <limits>

namespace fairdraw::reports {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;

harness::Evidence sample_evidence() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  harness::Evidence evidence;
  evidence.observed = "token 17 in 31 of 1000000 draws";
  evidence.expected = "0";
  evidence.smallest = "1 row of 1000 tokens, 4096 draws";
  evidence.effect = {"probability of token 17", 3.1e-5, 1.9e-5, 4.7e-5, 0.0, 0.99};
  evidence.decisive = {"g", 2.5e-31, std::nullopt, 4.5e-13};
  evidence.suspects = {{"lost lane", "lane 3 of 16 was never drawn"}, {"temperature", "the head"}};
  evidence.profiles = {
      {"rank", 0, 1'000'000, {{0, 9, 625000.5, 625100}, {10, 999, 374999.5, 374900}}},
      {"id", 0, 1'000'000, {{0, 499, 5e5, 500100}, {500, 999, 5e5, 499900}}},
      {"lane", 2, 1'000'000, {{0, 0, 5e5, 1'000'000}, {1, 1, 5e5, 0}}}};
  evidence.pit = {{"by probability", 4096, 0.09, 0.011, {0, 0.01, -0.003, 0}}};
  evidence.growth = {
      {"the distribution over 64 cells and 2000 sets", 12.5, {{4096, -0.5}, {10240, 13.75}}}};
  evidence.dependence = {
      {"streams by lag", {"offsets", "seeds"}, {"lag 1", "lag 2"}, {0.5, -9.25, 1.5, kNan}, 7.5}};
  evidence.boundary = {{3,
                        "temperature 1, top_k 0, top_p 0.9, min_p 0",
                        {{12, 1.5, 0.85, 0.9, harness::Oracle::in, true, 4},
                         {17, 1.25, 0.9, 0.9001, harness::Oracle::ambiguous, false, std::nullopt},
                         {5, -0.5, 0.9001, 0.95, harness::Oracle::out, std::nullopt, 31}}}};
  evidence.power = {{"g", 32, 4.5e-13, 1e-6, 0.02, {{500'000, 0.012}, {1'000'000, 0.0085}}}};
  return evidence;
}

RunRecord small_record() {
  RunRecord record;
  record.tool_version = "0.1.0";
  record.suite = "smoke";
  record.seed = 18446744073709551615u;
  record.seed_source = "commit 0123abc";
  record.commit = "0123abc";
  record.shard = "1/2";
  record.case_part = "1/2 again";
  record.planned = 14;
  record.places = {0, 2, 4, 6, 8, 10, 13};
  record.selection = "sample/*";
  record.options = " --semantics vllm_torch";
  record.environment = {{"compiler", "g++ 12.2.0"},
                        {"cpu", "a CPU with <wide> lanes & more"},
                        {"started", "2026-11-24T22:55:03Z"}};
  record.error_budget = {1e-9, 3.25e-10, 512};
  record.samplers = {{"cpu:avx2", "0.1.0", "fairdraw"},
                     {"plugin:demo",
                      "",
                      "vllm_torch",
                      {"Judged by profile vllm_torch, which allows anything at: top_p 0."},
                      5,
                      3}};
  record.nights = {{18446744073709551615u, "--seed-from 2026-11-24", "0123abc", 1e-9}};
  record.small_mistakes = {{"temperatures 0.1 % too high", "sample/top_p/gaussian/v1000", 0.00041,
                            1'000'000, 98'000'000}};

  CaseRecord passed;
  passed.id = "sample/top_p/gaussian/v1000";
  passed.suite = "smoke";
  passed.check = "dkwm";
  passed.sampler = "cpu:avx2";
  passed.semantics = "fairdraw";
  passed.filter = "top_p";
  passed.verdict = Verdict::passed;
  passed.draws = 1'000'000;
  passed.rows = 1;
  passed.vocab = 1000;
  passed.statistic = 30.5;
  passed.dof = 31;
  passed.p_value = 0.1;  // 0.1 has no finite binary expansion, so this checks that the shortest
                         // decimal is read back exactly
  passed.total_variation = 0.0021;
  passed.min_discrepancy = 0.0085;
  passed.seconds = 0.25;
  passed.measures = {{"alpha", 5e-13}, {"observed", 0.0004}};

  CaseRecord watched = passed;
  watched.id = "sample/top_p/gaussian/v32000";
  watched.watch = "G over 31 cells: p 2.1e-08, and 0.43 on fresh draws";

  CaseRecord exact = passed;
  exact.id = "sample/mask/ties_at_k/v32000";
  exact.check = "mask";
  exact.draws = 0;
  exact.vocab = 32000;
  exact.statistic = exact.dof = exact.p_value = exact.total_variation = exact.min_discrepancy =
      std::nullopt;
  exact.measures.clear();

  CaseRecord failed = passed;
  failed.id = "sample/top_k/zipf/v1000";
  failed.check = "g_test";
  failed.sampler = "plugin:demo";
  failed.semantics = "vllm_torch";
  failed.verdict = Verdict::failed;
  failed.p_value = 2.5e-31;
  failed.statistic = std::numeric_limits<double>::infinity();
  failed.message = "token 17 was drawn 31 times; expected 0";
  failed.cells = {{"rank", {0.625, 0.375}, {625'100, 374'900}, 1e-6, 1e-12}};
  failed.counted = {{18446744073709551615u, 200, {{0, 60, 0, 0, 38}, 100, 2, "it crashed"}}};
  failed.evidence = sample_evidence();

  CaseRecord underpowered = passed;
  underpowered.id = "sample/min_p/peaked/v1000";
  underpowered.verdict = Verdict::underpowered;
  underpowered.draws = 100;
  underpowered.min_discrepancy = 0.65;
  underpowered.message = "100 draws find 0.65; the case states 0.01";

  CaseRecord skipped = exact;
  skipped.id = "speculative/accept/v1000";
  skipped.sampler = "plugin:demo";
  skipped.verdict = Verdict::skipped;
  skipped.message = "the sampler has no chain_speculative_sampling";

  CaseRecord error = exact;
  error.id = "sample/replay/masked/v1000";
  error.sampler = "plugin:demo";
  error.verdict = Verdict::error;
  error.message = "sample returned -5";

  record.samplers.back().seen = {
      "hf", {{"mass exactly at top_p", "mass_above_below_p", {"inclusive_mass_at_most_p"}}}};
  record.samplers.back().conditions = {{"top_k", "rows with top_k"}};
  record.cases = {passed, exact, failed, underpowered, skipped, error, watched};
  for (CaseRecord& one : record.cases) {
    if (one.verdict != Verdict::skipped) one.replay = "fairdraw replay --case " + one.id;
  }
  record.draws = 3'000'100;
  record.seconds = 1.5;
  return record;
}

RunRecord covered_record() {
  RunRecord record = small_record();
  record.required = {"top_p", "masks"};
  record.max_skipped = 12.5;
  for (CaseRecord& one : record.cases) {
    if (one.check == "mask") {
      one.features = {"top_p", "masks"};
    } else {
      one.features = {"distribution", "top_p"};
    }
    if (one.verdict == Verdict::failed) one.lacks = {"num_samples"};
    if (one.verdict == Verdict::skipped) {
      one.features = {"chains"};
      one.lacks = {"chains"};
    }
  }
  return record;
}

std::string nasty_text() {
  return std::string("\"quotes' & </script><b onload=x>]]>-->|`code``*_[l](u)_*@all \\\n\r\t") +
         "\x1b[31mred\x1b]8;;http://x\x07\xe2\x80\xae" + "evil\xe2\x81\xa6\xef\xbb\xbf" +
         std::string(1, '\0') +
         "\x7f\xc2\x9b\xff\xc0\xaf\xed\xa0\x80\xef\xbf\xbf\xf0\x9f\x8e\xb2\xe2";
}

namespace {

void mutate(harness::Evidence& evidence) {
  const std::string nasty = nasty_text();
  evidence.observed = evidence.expected = evidence.smallest = nasty;
  evidence.effect->name = evidence.decisive->statistic = nasty;
  for (harness::Suspect& suspect : evidence.suspects) suspect.bug = suspect.reason = nasty;
  for (harness::PitEcdf& pit : evidence.pit) pit.name = nasty;
  for (harness::Growth& growth : evidence.growth) growth.name = nasty;
  for (harness::Dependence& dependence : evidence.dependence) {
    dependence.name = nasty;
    for (std::string& label : dependence.rows) label = nasty;
    for (std::string& label : dependence.columns) label = nasty;
  }
  evidence.boundary->filters = evidence.power->statistic = nasty;
}

}  // namespace

RunRecord nasty_record() {
  RunRecord record = small_record();
  const std::string nasty = nasty_text();
  record.tool_version = nasty;
  record.seed_source = nasty;
  record.commit = record.selection = record.options = nasty;
  record.incomplete = nasty;
  record.environment = {{nasty, nasty}};
  for (auto& sampler : record.samplers) {
    if (sampler.seen) {
      sampler.seen->closest = nasty;
      sampler.seen->differences = {{nasty, nasty, {nasty}}};
    }
    for (auto& condition : sampler.conditions) condition.subject = condition.text = nasty;
    sampler.name += nasty;
    sampler.version = nasty;
    sampler.semantics = nasty;
    sampler.notes = {nasty};
  }
  for (auto& night : record.nights) night.seed_source = night.commit = nasty;
  for (auto& mistake : record.small_mistakes) mistake.mistake = mistake.id = nasty;
  for (CaseRecord& one : record.cases) {
    one.id += nasty;
    one.check += nasty;
    one.sampler += nasty;
    one.semantics = nasty;
    one.message = nasty;
    one.watch = nasty;
    one.replay = nasty;
    one.filter = nasty;
    for (auto& cells : one.cells) cells.axis = nasty;
    for (auto& counted : one.counted) counted.counts.trouble = nasty;
    one.measures[nasty] = std::numeric_limits<double>::quiet_NaN();
    if (has_something(one.evidence)) mutate(one.evidence);
  }
  return record;
}

std::vector<harness::BenchmarkRecord> benchmark_rows() {
  return {{"cpu:avx512", "top_k_top_p_sampling_from_logits", 1, 131072, "float32", "peaked", 98.25,
           "max", 2.125, 46.25, ""},
          {"scalar", "softmax", 64, 32000, "bfloat16", "gaussian", 1234.5, "max_and_sum", 26, 47.5,
           "NVIDIA H200, driver 580.1, commit 0123abcd, 2026-11-21"}};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace fairdraw::reports
