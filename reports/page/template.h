// The files of the page (page/*.html, *.css, *.js), which are embedded when the program is built,
// and a function that fills in their placeholders. No package of Debian 12 has a template engine
// for C++, and the page only needs names to be replaced.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fairdraw::reports::page {

extern const std::string_view kPageHtml, kComparisonHtml, kPageCss, kPageJs;
/// Hash of the page's script for the page's policy; a browser runs no other script.
extern const std::string_view kPageJsHash;

using Values = std::vector<std::pair<std::string_view, std::string>>;

/// Returns `file` with each {{name}} replaced by its value. The value is markup, which is not
/// escaped here. Throws std::logic_error for a name without a value, and for a value that `file`
/// does not use.
std::string filled(std::string_view file, const Values& values);

}  // namespace fairdraw::reports::page
