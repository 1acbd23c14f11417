#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "reports/pending_file.h"
#include "reports/report.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {
namespace {

class WriteReport : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("fairdraw_report_") + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string content(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  static std::set<std::string> names(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static std::string writing_error(const std::filesystem::path& folder) {
    try {
      write_report(folder, small_record());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

TEST_F(WriteReport, creates_the_folder_and_four_files) {
  const auto target = folder_ / "a" / "b";
  write_report(target, small_record());
  EXPECT_EQ(names(target),
            (std::set<std::string>{"index.html", "junit.xml", "report.json", "summary.md"}));
  EXPECT_EQ(content(target / "report.json"), to_json(small_record()));
  EXPECT_EQ(content(target / "junit.xml"), to_junit_xml(small_record()));
  EXPECT_EQ(content(target / "summary.md"), to_markdown(small_record()));
  EXPECT_EQ(content(target / "index.html"), to_html(small_record()));
}

TEST_F(WriteReport, replaces_an_older_report_and_leaves_other_files) {
  std::ofstream(folder_ / "report.json") << "old and much longer than nothing";
  std::ofstream(folder_ / "notes.txt") << "mine";
  write_report(folder_, small_record());
  EXPECT_EQ(content(folder_ / "report.json"), to_json(small_record()));
  EXPECT_EQ(content(folder_ / "notes.txt"), "mine");
}

TEST_F(WriteReport, an_earlier_report_is_withdrawn_and_other_files_stay) {
  write_report(folder_, small_record());
  std::ofstream(folder_ / "notes.txt") << "mine";
  withdraw_report(folder_);
  EXPECT_EQ(names(folder_), std::set<std::string>{"notes.txt"});
  withdraw_report(folder_ / "a" / "b");  // creates the folder
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "a" / "b"));
}

TEST_F(WriteReport, what_is_still_to_be_read_is_kept) {
  write_report(folder_, small_record());
  withdraw_report(folder_, {folder_ / "." / "report.json", "no such file"});
  EXPECT_EQ(names(folder_), std::set<std::string>{"report.json"});
}

TEST_F(WriteReport, a_link_is_replaced_and_what_it_leads_to_stays) {
  const auto precious = folder_ / "precious";
  std::ofstream(precious) << "mine";
  const auto report = folder_ / "report";
  std::filesystem::create_directory(report);
  // Makes links with the names of the report's files, and with the names of its temporary files.
  for (const char* const name : {"index.html", "report.json", "junit.xml", "summary.md"}) {
    std::filesystem::create_symlink(precious, report / name);
    std::filesystem::create_symlink(
        precious, report / (std::string(name) + "." + std::to_string(getpid()) + ".0.tmp"));
    std::filesystem::create_symlink(
        precious, report / (std::string(name) + "." + std::to_string(getpid()) + ".tmp"));
  }
  withdraw_report(report);
  write_report(report, small_record());
  EXPECT_EQ(content(precious), "mine");
  EXPECT_EQ(content(report / "report.json"), to_json(small_record()));
  EXPECT_FALSE(std::filesystem::is_symlink(report / "report.json"));
}

TEST_F(WriteReport, what_is_half_written_can_be_removed_at_any_time) {
  const auto report = folder_ / "report";
  std::filesystem::create_directories(report);
  PendingFile first(report / "report.json", "1");
  PendingFile second(report / "index.html", "2");
  second.put_in_place();
  ASSERT_EQ(names(report).size(), 2U);
  remove_pending_files();
  EXPECT_EQ(names(report), std::set<std::string>{"index.html"});
}

TEST_F(WriteReport, what_a_killed_process_left_goes_with_the_report) {
  const auto report = folder_ / "report";
  std::filesystem::create_directories(report);
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string of_gone = std::to_string(gone), of_this = std::to_string(getpid());
  const std::set<std::string> kept = {
      "index.html." + of_this + ".0.tmp", "junit.xml." + of_gone + ".tmp",
      "notes.txt." + of_gone + ".0.tmp", "report.json." + of_gone + ".0.tmp.mine"};
  for (const std::string& name : kept) std::ofstream(report / name) << "x";
  std::ofstream(report / ("report.json." + of_gone + ".0.tmp")) << "x";
  std::ofstream(report / ("index.html." + of_gone + ".17.tmp")) << "x";
  withdraw_report(report);
  EXPECT_EQ(names(report), kept);
}

TEST_F(WriteReport, a_folder_that_cannot_be_made_is_named_with_the_reason) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(writing_error(folder_ / "file"),
            "cannot write '" + (folder_ / "file").string() + "': Not a directory");
  EXPECT_EQ(writing_error(folder_ / "file" / "sub"),
            "cannot write '" + (folder_ / "file" / "sub").string() + "': Not a directory");
}

TEST_F(WriteReport, a_file_that_cannot_be_replaced_is_named_and_nothing_is_left_behind) {
  std::filesystem::create_directories(folder_ / "report.json" / "in the way");
  EXPECT_EQ(writing_error(folder_),
            "cannot write '" + (folder_ / "report.json").string() + "': Is a directory");
  for (const std::string& name : names(folder_)) {
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
  }
}

TEST_F(WriteReport, a_folder_where_no_file_can_be_made_is_an_error) {
  // The test needs /proc, a folder in which not even root can create files.
  if (!std::filesystem::is_directory("/proc/self")) GTEST_SKIP() << "no /proc here";
  EXPECT_TRUE(writing_error("/proc/self").starts_with("cannot write '/proc/self/index.html': "));
}

}  // namespace
}  // namespace fairdraw::reports
