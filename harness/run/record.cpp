#include "harness/run/record.h"

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
  if (counts.underpowered > 0 || counts.passed == 0) return 3;
  return 0;
}

}  // namespace fairdraw::harness
