// Parts of index.html that the stored pages do not try: what fills its files in, addresses, cards,
// the heat map, earlier runs.
#include <gtest/gtest.h>

#include <cctype>
#include <stdexcept>

#include "reports/page/parts.h"
#include "reports/page/template.h"
#include "reports/report.h"
#include "reports/tests/evidence_samples.h"

namespace fairdraw::reports {
namespace {

bool says(const std::string& page, const std::string& what) {
  return page.find(what) != std::string::npos;
}

TEST(PageFiles, names_are_replaced_and_values_are_left_as_they_are) {
  EXPECT_EQ(page::filled("{{a}} and {{b}}, {{a}}", {{"a", "{{b}}"}, {"b", "2"}}),
            "{{b}} and 2, {{b}}");
  EXPECT_EQ(page::filled("no name {", {}), "no name {");
  EXPECT_THROW((void)page::filled("{{a}}", {}), std::logic_error);
  EXPECT_THROW((void)page::filled("{{a}}", {{"a", "1"}, {"b", "2"}}), std::logic_error);
}

TEST(Addresses, are_of_letters_alone_and_differ_where_names_do) {
  harness::CaseRecord one;
  one.id = "mask/gaussian/v1000/edges";
  one.sampler = "cpu";
  const std::string anchor = html::anchor_of(one.id, one.sampler);
  EXPECT_TRUE(anchor.starts_with("case-mask-gaussian-v1000-edges-")) << anchor;
  harness::CaseRecord other = one;
  other.sampler = "cpu:avx2";
  EXPECT_NE(html::anchor_of(other.id, other.sampler), anchor);
  other = one;
  other.id = "mask-gaussian-v1000-edges";  // the same letters
  EXPECT_NE(html::anchor_of(other.id, other.sampler), anchor);
  other.id = nasty_text() + std::string(1000, 'x');
  for (const char letter : html::anchor_of(other.id, other.sampler)) {
    EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' ||
                letter == '_')
        << letter;
  }
  EXPECT_LE(html::anchor_of(other.id, other.sampler).size(), std::size_t{64});
}

TEST(Causes, every_failed_case_is_in_one_card_with_an_address_of_its_own) {
  const harness::RunRecord record = red_record(html::kMaxCardsOfCause);
  const std::string page = html::causes_section(record);
  EXPECT_EQ(count_of(page, "<article "), failure_groups(record).size());
  for (const harness::CaseRecord* const one : red_cases(record)) {
    EXPECT_EQ(count_of(page, "id=\"" + html::anchor_of(one->id, one->sampler) + "\""), 1U)
        << one->id;
  }
  EXPECT_TRUE(says(page, "What to change"));
  const std::size_t causes = harness::ranked_causes(record).size();
  EXPECT_GT(causes, 1U);
  EXPECT_TRUE(says(page, std::to_string(html::kMaxCardsOfCause) + " failed cases have " +
                             std::to_string(causes) + " causes."));
}

TEST(Causes, of_a_thousand_failures_the_page_shows_some_and_names_the_rest) {
  const harness::RunRecord record = red_record(1000);
  const std::string page = html::causes_section(record);
  EXPECT_LE(count_of(page, "<details class=\"case\""), html::kMaxCards);
  EXPECT_TRUE(says(page, "all are in the table"));
  EXPECT_LE(page.size(), std::size_t{3'000'000});
}

TEST(HeatMap, a_cell_says_its_counts_and_leads_to_its_cases) {
  const std::string map = html::heat_map_section(small_record());
  EXPECT_TRUE(says(map,
                   "<a class=\"show bad\" href=\"#cases\" data-sampler=\"plugin:demo\" "
                   "data-check=\"g_test\" data-verdict=\"failed\">"))
      << map;
  EXPECT_TRUE(
      says(map, "g_test on plugin:demo: 1 failed, 0 error, 0 underpowered, 0 passed, 0 skipped"));
  EXPECT_EQ(html::heat_map_section(harness::RunRecord()), "");
  // Thousands of samplers are no picture.
  harness::RunRecord many;
  for (int i = 0; i < 1000; ++i) {
    harness::CaseRecord one;
    one.sampler = "s" + std::to_string(i);
    one.check = "c" + std::to_string(i);
    many.cases.push_back(one);
  }
  EXPECT_LE(html::heat_map_section(many).size(), std::size_t{1'000'000});
}

TEST(History, shows_runs_and_links_what_changed) {
  const harness::RunRecord record = evidence_record();
  const ReportExtras extras = sample_extras();
  const std::string table = html::history_section(record, extras);
  EXPECT_EQ(count_of(table, "<tr"), 1 + extras.history.size() + 1);
  EXPECT_TRUE(says(table, "<a href=\"../monday/index.html\">21 November 2026, 22:00 UTC</a>"))
      << table;
  EXPECT_TRUE(says(table, "(this run)"));
  // The case that failed on Tuesday and passes now has no card; those that failed have one.
  ReportExtras green;
  green.history = {extras.history.front()};
  const std::string changes = html::history_section(record, green);
  for (const harness::CaseRecord* const one : red_cases(record)) {
    EXPECT_TRUE(says(changes, "href=\"#" + html::anchor_of(one->id, one->sampler) + "\""))
        << one->id;
  }
  // Where an earlier run's page is known, what turned red there is shown there.
  ReportExtras known = extras;
  known.history[1].page = "../tuesday/index.html";
  const std::string link = "<a href=\"../tuesday/index.html#case-";
  EXPECT_EQ(count_of(table, link), 0U);
  EXPECT_GT(count_of(html::history_section(record, known), link), 0U);
  EXPECT_TRUE(says(html::history_strip(record, extras), "3 runs, this one last: 1 passed."));
  EXPECT_EQ(html::history_section(record, {}), "");
  EXPECT_EQ(html::history_strip(record, {}), "");
}

TEST(Wording, durations_and_dates) {
  EXPECT_EQ(duration_text(1.5), "1.5 s");
  EXPECT_EQ(duration_text(192.4), "3 min 12 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  harness::RunRecord record;
  EXPECT_EQ(date_text(record), "");
  record.environment["started"] = "2026-11-24T22:55:03Z";
  EXPECT_EQ(date_text(record), "24 November 2026, 22:55 UTC");
  // Of merged shards, the first that began.
  record.environment["started"] = "2026-11-24T22:55:03Z; 2026-11-24T09:05:00Z";
  EXPECT_EQ(date_text(record), "24 November 2026, 09:05 UTC");
  record.environment["started"] = "yesterday";
  EXPECT_EQ(date_text(record), "yesterday");
}

}  // namespace
}  // namespace fairdraw::reports
