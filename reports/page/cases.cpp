// Writes all cases as compact JSON, so that a page of 10^5 cases still opens at once.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "reports/escape.h"
#include "reports/page/data.h"

namespace fairdraw::reports::page {
namespace {

// Largest number of cases for which the page includes measures, which are most of a statistical
// case's bytes; report.json has the measures in any case.
constexpr std::size_t kMaxCasesWithMeasures = 10'000;

/// JSON values that many cases share; each is stored once, in the order of first appearance.
class Dictionary {
 public:
  std::size_t index(const std::string& json) {
    const auto [at, is_new] = index_.emplace(json, index_.size());
    if (is_new) list_ += (list_.empty() ? "" : ",") + json;
    return at->second;
  }
  std::string json() const { return "[" + list_ + "]"; }

 private:
  std::map<std::string, std::size_t> index_;
  std::string list_;
};

std::string number(const std::optional<double>& value) {
  // JSON has no values for infinity and NaN.
  return value && std::isfinite(*value) ? fmt::format("{:.4g}", *value) : "null";
}

/// Appends `text` to a JSON array as strings, with `mark` in place of each occurrence of `part`.
void append_parts(std::string& json, std::string_view text, std::string_view part, int mark) {
  const auto append = [&json](const std::string& element) {
    json += (json.size() > 1 ? "," : "") + element;
  };
  for (std::size_t at = part.empty() ? text.npos : text.find(part); at != text.npos;
       at = text.find(part)) {
    if (at > 0) append(script_string(text.substr(0, at)));
    append(std::to_string(mark));
    text.remove_prefix(at + part.size());
  }
  if (!text.empty()) append(script_string(text));
}

/// Returns the replay line without the case (marked by 0) and the sampler (marked by 1), which the
/// row of the case has already. The rest of a replay line is the same for all cases of a run.
std::string replay_template(const harness::CaseRecord& record) {
  std::string json = "[";
  const std::string_view line = record.replay;
  const std::size_t id = record.id.empty() ? line.npos : line.find(record.id);
  if (id == line.npos) {
    append_parts(json, line, record.sampler, 1);
  } else {
    append_parts(json, line.substr(0, id), record.sampler, 1);
    append_parts(json, record.id, record.id, 0);
    append_parts(json, line.substr(id + record.id.size()), record.sampler, 1);
  }
  return json + "]";
}

}  // namespace

std::string cases_data(const harness::RunRecord& record, const std::set<std::size_t>& detailed) {
  Dictionary verdicts, samplers, semantics, checks, filters, replays, names;
  const bool with_measures = record.cases.size() <= kMaxCasesWithMeasures;
  std::string rows;
  for (std::size_t place = 0; place < record.cases.size(); ++place) {
    const harness::CaseRecord& one = record.cases[place];
    rows += fmt::format("{}[{},{},{},{},{},{},{},{},{},{},{},{},{}", rows.empty() ? "" : ",\n",
                        verdicts.index(script_string(to_string(one.verdict))),
                        samplers.index(script_string(one.sampler)), script_string(one.id),
                        semantics.index(script_string(one.semantics)),
                        checks.index(script_string(one.check)),
                        filters.index(script_string(one.filter)), one.rows, one.vocab, one.draws,
                        number(one.p_value), number(one.total_variation),
                        number(one.min_discrepancy), replays.index(replay_template(one)));
    std::string measures;
    if (with_measures || detailed.contains(place)) {
      for (const auto& [name, value] : one.measures) {
        measures += fmt::format("{}{},{}", measures.empty() ? "" : ",",
                                names.index(script_string(name)), number(value));
      }
    }
    rows += "," + script_string(one.message);
    if (!one.watch.empty() || !measures.empty()) rows.append(",").append(script_string(one.watch));
    if (!measures.empty()) rows.append(",[").append(measures).append("]");
    rows += ']';
  }
  return fmt::format(
      "\"verdicts\":{},\n\"samplers\":{},\n\"semantics\":{},\n\"checks\":{},\n\"filters\":{},\n"
      "\"replays\":{},\n\"measures\":{},\n\"cases\":[\n{}]",
      verdicts.json(), samplers.json(), semantics.json(), checks.json(), filters.json(),
      replays.json(), names.json(), rows);
}

}  // namespace fairdraw::reports::page
