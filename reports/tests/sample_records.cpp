#include "sample_records.h"

#include <limits>

namespace fairdraw::reports {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;

RunRecord small_record() {
  RunRecord record;
  record.tool_version = "0.1.0";
  record.suite = "smoke";
  record.seed = 18446744073709551615u;
  record.seed_source = "commit 0123abc";
  record.shard = "1/2";
  record.environment = {{"compiler", "g++ 12.2.0"}, {"cpu", "a CPU with <wide> lanes & more"}};
  record.error_budget = {1e-9, 3.25e-10};
  record.samplers = {{"cpu:avx2", "0.1.0", "fairdraw"}, {"plugin:demo", "", "vllm_torch"}};

  CaseRecord passed;
  passed.id = "sample/top_p/gaussian/v1000";
  passed.suite = "smoke";
  passed.check = "dkwm";
  passed.sampler = "cpu:avx2";
  passed.semantics = "fairdraw";
  passed.verdict = Verdict::passed;
  passed.draws = 1'000'000;
  passed.rows = 1;
  passed.vocab = 1000;
  passed.statistic = 30.5;
  passed.dof = 31;
  passed.p_value = 0.1;  // has no finite binary expansion: the shortest decimal must come back
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

  record.cases = {passed, exact, failed, underpowered, skipped, error, watched};
  for (CaseRecord& one : record.cases) {
    if (one.verdict != Verdict::skipped) one.replay = "fairdraw replay --case " + one.id;
  }
  record.draws = 2'000'100;
  record.seconds = 1.5;
  return record;
}

std::string nasty_text() {
  return std::string("\"quotes' & </script><b onload=x>]]>-->|`code``*_[l](u)_*@all \\\n\r\t") +
         "\x1b[31mred\x1b]8;;http://x\x07\xe2\x80\xae" + "evil\xe2\x81\xa6\xef\xbb\xbf" +
         std::string(1, '\0') +
         "\x7f\xc2\x9b\xff\xc0\xaf\xed\xa0\x80\xef\xbf\xbf\xf0\x9f\x8e\xb2\xe2";
}

RunRecord nasty_record() {
  RunRecord record = small_record();
  const std::string nasty = nasty_text();
  record.tool_version = nasty;
  record.seed_source = nasty;
  record.environment = {{nasty, nasty}};
  for (auto& sampler : record.samplers) {
    sampler.name += nasty;
    sampler.version = nasty;
    sampler.semantics = nasty;
  }
  for (CaseRecord& one : record.cases) {
    one.id += nasty;
    one.check += nasty;
    one.sampler += nasty;
    one.semantics = nasty;
    one.message = nasty;
    one.watch = nasty;
    one.replay = nasty;
    one.measures[nasty] = std::numeric_limits<double>::quiet_NaN();
  }
  return record;
}

std::vector<harness::BenchmarkRecord> benchmark_rows() {
  return {{"cpu:avx512", "top_k_top_p_sampling_from_logits", 1, 131072, "float32", "peaked", 98.25,
           "max", 2.125, 46.25, ""},
          {"scalar", "softmax", 64, 32000, "bfloat16", "gaussian", 1234.5, "max_and_sum", 26, 47.5,
           "NVIDIA H200, driver 580.1, commit 0123abcd, 2026-11-21"}};
}

}  // namespace fairdraw::reports
