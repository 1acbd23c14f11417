// The style sheet of index.html: light and dark by the reader's preference, verdicts by word
// and sign as well as by colour. Blue and vermilion are far apart for every kind of colour vision;
// red and green are never the only difference. All text has a contrast of 4.5 or more to
// what is behind it, which the browser test measures.
#pragma once

#include <string_view>

namespace fairdraw::reports {

inline constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1a1d21; --page: #fbfbf9; --soft: #555d66; --line: #dcdcd6;
  --card: #fff; --sunk: #f1f1ec; --accent: #0b5cad; --passed: #0b6a4f; --failed: #b02a12;
  --underpowered: #865300; --skipped: #555d66; --observed: #0b5cad; --outside: #c2410c;
  --band: #0b5cad24; --passed-soft: #e3f2ec; --failed-soft: #fbe9e4; --underpowered-soft: #fbf0dc;
  --skipped-soft: #ececea; }
@media (prefers-color-scheme: dark) { :root { --text: #e7e9ea; --page: #121417; --soft: #a4adb7;
  --line: #33383f; --card: #1a1d22; --sunk: #22262c; --accent: #7db7ff; --passed: #5cd0a4;
  --failed: #ff9479; --underpowered: #eab558; --skipped: #a4adb7; --observed: #6cb0ff;
  --outside: #ff9866; --band: #6cb0ff33; --passed-soft: #16322a; --failed-soft: #3d1f18;
  --underpowered-soft: #38290f; --skipped-soft: #2a2e34; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0 auto; max-width: 86rem; padding: 1.5rem 1.25rem 4rem; color: var(--text);
  background: var(--page); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
header { padding: 1.25rem 1.5rem; background: var(--card); border: 1px solid var(--line);
  border-top: .35rem solid var(--skipped); border-radius: .5rem; }
header.passed { border-top-color: var(--passed); }
header.failed, header.error { border-top-color: var(--failed); }
header.underpowered { border-top-color: var(--underpowered); }
.brand { margin: 0; color: var(--soft); font-size: .8rem; font-weight: 600; letter-spacing: .12em;
  text-transform: uppercase; }
h1 { margin: .1rem 0 1rem; font-size: clamp(1.4rem, 1rem + 2vw, 2.1rem); line-height: 1.2;
  letter-spacing: -.01em; text-wrap: balance; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.3rem; line-height: 1.25; }
h3 { margin: 1.25rem 0 .5rem; font-size: 1rem; overflow-wrap: anywhere; }
code, pre, kbd { font: .86em/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
kbd { padding: 0 .3em; border: 1px solid var(--line); border-radius: .25em; background: var(--sunk); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .3rem 1.25rem;
  margin: .75rem 0 0; }
dt { color: var(--soft); overflow-wrap: anywhere; } dd { margin: 0; overflow-wrap: anywhere; }
dl.numbers { grid-template-columns: repeat(auto-fill, minmax(9rem, max-content) minmax(6rem, 1fr));
  font-size: .875rem; font-variant-numeric: tabular-nums; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem;
  margin: 0; padding: 0; list-style: none; }
.tiles a, .tiles div { display: block; padding: .5rem .8rem; color: var(--text); text-decoration: none;
  border-radius: .4rem; background: var(--sunk); }
.tiles a:hover { outline: 1px solid var(--line); }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tiles .passed a { background: var(--passed-soft); }
.tiles .failed a, .tiles .error a { background: var(--failed-soft); }
.tiles .underpowered a { background: var(--underpowered-soft); }
.tiles .none b { color: var(--soft); }
.verdict { font-weight: 600; white-space: nowrap; font-size: .9rem; }
.verdict::before { display: inline-block; width: 1.1em; }
.verdict.passed { color: var(--passed); } .verdict.passed::before { content: "\2713"; }
.verdict.failed, .verdict.error { color: var(--failed); }
.verdict.failed::before { content: "\2717"; } .verdict.error::before { content: "!"; }
.verdict.underpowered { color: var(--underpowered); } .verdict.underpowered::before { content: "?"; }
.verdict.skipped { color: var(--skipped); } .verdict.skipped::before { content: "\2013"; }
.tiles .none .verdict { color: var(--soft); }
.note { padding: .1rem .4rem; border-radius: .25rem; background: var(--underpowered-soft); }
.common { margin-top: 1.5rem; border-left: .35rem solid var(--failed); }
.common ol { margin: .4rem 0; padding-left: 1.4rem; }
.panels { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); gap: 1rem;
  margin-top: 1.5rem; align-items: start; }
.panel { padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; }
.panel h2 { margin: 0 0 .4rem; font-size: 1.05rem; } .panel p { margin: 0; color: var(--soft); }
.panel p b { color: var(--text); }
.panel .scroll { max-height: 15rem; overflow-y: auto; } dd svg { vertical-align: middle; }
.card { margin: .9rem 0; padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line);
  border-left: .35rem solid var(--failed); border-radius: .5rem; }
.card.underpowered { border-left-color: var(--underpowered); }
.card h3 { margin: 0; } .card h3 code { color: var(--soft); font-weight: 400; }
li, .part, .closer, p, summary { overflow-wrap: anywhere; }
.message { margin: .5rem 0; font-size: 1.05rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.suspect { margin: .6rem 0; padding: .5rem .75rem; border-radius: .35rem; overflow-wrap: anywhere;
  background: var(--underpowered-soft); }
.replay { display: flex; gap: .5rem; align-items: stretch; margin: .75rem 0 0; }
.replay pre { flex: 1; margin: 0; padding: .5rem .7rem; overflow-x: auto; border-radius: .35rem;
  background: var(--sunk); }
button, select, input { font: inherit; font-size: .9rem; color: var(--text); background: var(--card);
  border: 1px solid var(--line); border-radius: .35rem; padding: .3rem .7rem; }
button { cursor: pointer; } button:hover:enabled { border-color: var(--accent); }
button:disabled { color: var(--soft); cursor: default; }
details { margin: .6rem 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
.card > details > summary { color: var(--accent); font-size: .9rem; }
.part, .closer { margin: .3rem 0; padding: .4rem .75rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .35rem; }
.part summary span:last-child { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; align-items: flex-start; gap: .75rem; margin: .75rem 0; overflow-x: auto; }
.figures svg { max-width: 100%; height: auto; padding: .35rem; border: 1px solid var(--line);
  border-radius: .35rem; background: var(--page); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .875rem; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { padding: .32rem .6rem; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.boundary td { font-variant-numeric: tabular-nums; white-space: nowrap; }
.boundary .wrong td { color: var(--failed); font-weight: 600; background: var(--failed-soft); }
.tools { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; margin: 1rem 0 .5rem; }
.tools label { display: grid; gap: .15rem; font-size: .8rem; color: var(--soft); min-width: 0; }
.tools > * { max-width: 100%; } .tools label:first-child { flex: 1 1 14rem; } .tools select { max-width: 13rem; width: 100%; }
.hint, .pages { color: var(--soft); font-size: .875rem; }
.cases th { padding: 0; }
.cases th button { width: 100%; padding: .35rem .5rem; border: 0; background: none; text-align: inherit;
  font-weight: 600; color: var(--soft); white-space: nowrap; }
.cases th button::after { content: " \2195"; opacity: .5; }
.cases th[aria-sort] button { color: var(--text); }
.cases th[aria-sort=ascending] button::after { content: " \2191"; opacity: 1; }
.cases th[aria-sort=descending] button::after { content: " \2193"; opacity: 1; }
.cases tbody tr:hover { background: var(--sunk); }
.cases td { white-space: nowrap; padding: .28rem .5rem; }
.cases td:nth-child(3) { white-space: normal; min-width: 14rem; }
button.row { padding: 0; border: 0; background: none; text-align: left; overflow-wrap: anywhere;
  color: var(--accent); }
button.row::before { content: "\25B8"; display: inline-block; width: 1em; color: var(--soft); }
button.row[aria-expanded=true]::before { content: "\25BE"; }
tr.details td { white-space: normal; background: var(--sunk); padding: .6rem 1rem 1rem; }
tr.details .replay pre { background: var(--card); }
svg text { fill: var(--text); font: 11px system-ui, sans-serif; }
svg .title { font-size: 12px; font-weight: 600; }
svg .tick, svg .label { fill: var(--soft); font-size: 10.5px; }
svg .y, svg .note { text-anchor: end; } svg .x, svg .label, svg text.mark { text-anchor: middle; }
svg .note { fill: var(--outside); font-size: 10.5px; }
svg .grid { stroke: var(--line); fill: none; } svg .axis { stroke: var(--soft); fill: none; }
svg .band { fill: var(--band); } svg .bar { fill: var(--observed); }
svg .expected { fill: none; stroke: var(--soft); stroke-width: 1.5; }
svg .faint { opacity: .35; }
svg .limit { fill: none; stroke: var(--outside); stroke-dasharray: 5 3; }
svg .observed { fill: var(--observed); } svg .outside { fill: var(--outside); }
svg .line { fill: none; stroke-width: 1.75; }
svg .observed.line, svg .observed.stem, svg .observed.dots { stroke: var(--observed); }
svg .outside.line, svg .outside.stem { stroke: var(--outside); }
svg .stem { fill: none; stroke-width: 1.5; }
svg .dots { fill: none; stroke-width: 5; stroke-linecap: round; }
svg .interval { fill: none; stroke: var(--observed); stroke-width: 1.75; }
svg path.mark { stroke: var(--outside); stroke-width: 1.5; stroke-dasharray: 3 2; }
svg rect.good { fill: var(--passed-soft); } svg rect.bad { fill: var(--failed-soft); }
svg rect.unsure { fill: var(--underpowered-soft); } svg rect.absent { fill: var(--sunk); }
svg text.good { fill: var(--passed); } svg text.bad { fill: var(--failed); font-weight: 600; }
svg text.unsure { fill: var(--underpowered); } svg text.absent { fill: var(--soft); }
svg .cool0, svg .warm0 { fill: var(--sunk); }
svg rect.cool1 { fill: #4a90d940; } svg rect.cool2 { fill: #4a90d980; }
svg rect.cool3 { fill: #4a90d9c0; } svg rect.cool4 { fill: #4a90d9; }
svg rect.warm1 { fill: #e0762f40; } svg rect.warm2 { fill: #e0762f80; }
svg rect.warm3 { fill: #e0762fc0; } svg rect.warm4 { fill: #e0762f; }
svg rect.beyond { stroke: var(--text); stroke-width: 2; }
svg text.mark.beyond { fill: #000; font-weight: 700; }
@media (max-width: 52rem) { .panels { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 30rem) { body { padding: .5rem .5rem 3rem; } header, .panel, .card { padding: .8rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: .4rem; }
  dl.numbers { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
  .tiles { grid-template-columns: 1fr 1fr; } .replay { flex-direction: column; }
  .figures svg { width: 100%; } }
@media print { .tools, .pages, .hint, .copy { display: none; } }
)";

}  // namespace fairdraw::reports
