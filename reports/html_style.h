// The style sheet of index.html: light and dark by the reader's preference, verdicts told by word
// and weight as well as by colour.
#pragma once

#include <string_view>

namespace fairdraw::reports {

inline constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1b1f24; --page: #fff; --soft: #57606a; --line: #d0d7de;
  --card: #f6f8fa; --passed: #1a6e37; --failed: #b3181f; --underpowered: #8a5300; --skipped: #57606a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --page: #0d1117; --soft: #9aa4af;
  --line: #30363d; --card: #161b22; --passed: #4cc36c; --failed: #ff7b72; --underpowered: #e0a33e;
  --skipped: #9aa4af; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; color: var(--text); background: var(--page);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 .25rem; font-size: 1.75rem; }
h1.passed { color: var(--passed); } h1.failed, h1.error { color: var(--failed); }
h1.underpowered { color: var(--underpowered); } h1.skipped { color: var(--underpowered); }
h2 { margin: 2rem 0 .5rem; font-size: 1.25rem; }
h3 { margin: 0; font-size: 1rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 1rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
article { margin: .75rem 0; padding: .75rem 1rem; background: var(--card);
  border: 1px solid var(--line); border-left: .3rem solid var(--failed); border-radius: .3rem; }
article.underpowered { border-left-color: var(--underpowered); }
article p { margin: .5rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { margin: .5rem 0 0; padding: .5rem; overflow-x: auto; border: 1px solid var(--line);
  background: var(--page); }
code, pre { font: .875rem/1.4 ui-monospace, monospace; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { padding: .3rem .6rem; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.verdict { font-weight: 600; white-space: nowrap; }
.verdict.passed { color: var(--passed); } .verdict.failed, .verdict.error { color: var(--failed); }
.verdict.underpowered { color: var(--underpowered); } .verdict.skipped { color: var(--skipped); }
)";

}  // namespace fairdraw::reports
