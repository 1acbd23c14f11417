#include "harness/run/evidence/record.h"

#include <algorithm>
#include <utility>

#include "harness/run/evidence/coverage.h"

namespace fairdraw::harness {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::underpowered:
      return "underpowered";
    case Verdict::skipped:
      return "skipped";
    case Verdict::error:
      return "error";
  }
  return "error";
}

const char* to_string(Oracle oracle) {
  switch (oracle) {
    case Oracle::in:
      return "in";
    case Oracle::out:
      return "out";
    case Oracle::ambiguous:
      return "ambiguous";
  }
  return "ambiguous";
}

namespace {

enum class LooksAt { results, tokens };
struct CheckRow {
  std::string_view name;
  LooksAt looks_at;
  const char* cause;
};
constexpr CheckRow kCheckRows[] = {
    {kGlobalCheck, LooksAt::tokens, nullptr},  // judges a whole run
#define FAIRDRAW_CHECK(id, name, function, budget, looks_at, bug, reason, ...) \
  {name, LooksAt::looks_at, bug},
#include "harness/run/evidence/checks.inc"
};

const CheckRow* row_of(std::string_view check) {
  const auto* const found = std::ranges::find(kCheckRows, check, &CheckRow::name);
  return found == std::end(kCheckRows) ? nullptr : found;
}

}  // namespace

bool looks_at_tokens(std::string_view check) {
  const CheckRow* const row = row_of(check);
  return row != nullptr && row->looks_at == LooksAt::tokens;
}

std::string_view default_cause(std::string_view check) {
  const CheckRow* const row = row_of(check);
  return row == nullptr || row->cause == nullptr ? std::string_view() : row->cause;
}

CheckOutcome& CheckOutcome::fail(std::string what) {
  if (!failed()) message = std::move(what);
  verdict = Verdict::failed;
  return *this;
}

void CheckOutcome::watch_out(const std::string& what) {
  watch += watch.empty() ? what : "; " + what;
}

void CheckOutcome::leave_out(const Lack& lack) {
  if (lack.ability.empty() || std::ranges::find(lacks, lack.ability) != lacks.end()) return;
  lacks.push_back(lack.ability);
}

void CheckOutcome::spend(double level) {
  if (level > 0) measures["spent"] += level;
}

double CheckOutcome::spent() const {
  const auto found = measures.find("spent");
  return found == measures.end() ? 0 : found->second;
}

Summary RunRecord::summary() const {
  Summary summary;
  for (const CaseRecord& record : cases) {
    switch (record.verdict) {
      case Verdict::passed:
        ++summary.passed;
        break;
      case Verdict::failed:
        ++summary.failed;
        break;
      case Verdict::underpowered:
        ++summary.underpowered;
        break;
      case Verdict::skipped:
        ++summary.skipped;
        break;
      case Verdict::error:
        ++summary.error;
        break;
    }
  }
  return summary;
}

int RunRecord::exit_code() const {
  const Summary counts = summary();
  if (counts.failed + counts.error > 0) return 1;
  if (counts.underpowered > 0 || !incomplete.empty()) return 3;
  if (!unmet_requirements(*this).empty()) return 3;
  return counts.passed == 0 && case_part.empty() ? 3 : 0;
}

namespace {

std::uint64_t points_of(const Evidence& evidence) {
  std::uint64_t points = 0;
  for (const Profile& profile : evidence.profiles) points += profile.bins.size();
  for (const PitEcdf& pit : evidence.pit) points += pit.difference.size();
  for (const Growth& growth : evidence.growth) points += growth.points.size();
  for (const Dependence& dependence : evidence.dependence) points += dependence.z.size();
  if (evidence.boundary) points += evidence.boundary->tokens.size();
  if (evidence.power) points += evidence.power->curve.size();
  return points;
}

void drop_pictures(Evidence& evidence) {
  evidence.profiles.clear();
  evidence.pit.clear();
  evidence.growth.clear();
  evidence.dependence.clear();
  evidence.boundary.reset();
  if (evidence.power) evidence.power->curve.clear();
}

}  // namespace

bool has_something(const Evidence& evidence) {
  return points_of(evidence) > 0 || evidence.effect || evidence.decisive || evidence.power ||
         !evidence.suspects.empty() || !evidence.observed.empty() || !evidence.expected.empty() ||
         !evidence.smallest.empty();
}

void keep_evidence_within_bounds(std::vector<CaseRecord>& cases) {
  std::uint64_t left = kMaxRunPoints;
  for (const bool red : {true, false}) {
    for (CaseRecord& one : cases) {
      const bool is_red = one.verdict == Verdict::failed || one.verdict == Verdict::error ||
                          one.verdict == Verdict::underpowered;
      if (is_red != red) continue;
      const std::uint64_t points = points_of(one.evidence);
      if (points > left) {
        drop_pictures(one.evidence);
      } else {
        left -= points;
      }
    }
  }
}

}  // namespace fairdraw::harness
