// The page's files (page/*.html, *.css, *.js), embedded when the program is built, and how they are
// filled in. No package of Debian 12 has a template engine for C++; what the page needs of one is
// replacing names.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fairdraw::reports::page {

extern const std::string_view kPageHtml, kComparisonHtml, kPageCss, kPageJs;
/// What the page's policy calls its script: the only one that a browser runs.
extern const std::string_view kPageJsHash;

using Values = std::vector<std::pair<std::string_view, std::string>>;

/// `file` with each {{name}} replaced by its value: markup, which nothing here escapes. Throws
/// std::logic_error for a name without a value, and for a value that the file does not use.
std::string filled(std::string_view file, const Values& values);

}  // namespace fairdraw::reports::page
