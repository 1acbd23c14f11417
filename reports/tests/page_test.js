// page.js without a browser: its pictures by themselves, and the pages of the sample reports as it
// draws them.
//
// node page_test.js PAGE_JS FOLDER: reads FOLDER/*/index.html and leaves what the script makes of
// each in drawn.html beside it. Exit codes: 0 all held; 1 something did not.
"use strict";
const assert = require("assert");
const fs = require("fs");
const path = require("path");
const {openPage} = require("./dom.js");
const page = require(path.resolve(process.argv[2]));
const folder = process.argv[3];

const tests = [];
const test = (name, run) => tests.push([name, run]);
const count = (text, part) => text.split(part).length - 1;
const says = (text, part) => assert(text.includes(part), part + " is not in " + text.slice(0, 5000));
// What a picture is as text; numbers that are none must be in no attribute.
const drawn = (...pictures) => {
  const text = pictures.flat().map((one) => one.outerHTML).join("");
  for (const [, value] of text.matchAll(/ (?:d|x|y|cx|cy|width|height)="([^"]*)"/g)) {
    assert(!/nan|inf/i.test(value), value);
  }
  return text;
};
const DIAMOND = "<path class=\"outside\"";

const sample = (name) => {
  const html = fs.readFileSync(path.join(folder, name, "index.html"), "utf8");
  const [, data] = html.split("<script type=\"application/json\" id=\"data\">");
  return JSON.parse(data.split("</script>")[0]);
};
const draw = (data, hash) => {
  const root = openPage(hash);
  page.drawPage(data);
  return root;
};
const section = (root, id) => {
  const found = root.querySelector("#" + id);
  return found ? found.outerHTML : "";
};
const detailOf = (check) => {
  const data = sample("evidence");
  const place = Object.keys(data.details).find((one) => data.checks[data.cases[one][4]] === check);
  return data.details[place];
};

// --- Numbers and addresses ------------------------------------------------------------------------
test("numbers are written as in the other reports", () => {
  for (const [value, digits, text] of [[0, 4, "0"], [0.1, 4, "0.1"], [2.5e-31, 4, "2.5e-31"],
    [1e-5, 4, "1e-05"], [0.0001, 4, "0.0001"], [12345.6, 4, "1.235e+04"], [31250, 6, "31250"],
    [-179.9, 3, "-180"], [999.96, 4, "1000"], [99999.6, 5, "1e+05"], [1e300, 3, "1e+300"],
    [NaN, 3, "nan"], [-Infinity, 3, "-inf"], [0.7, 9, "0.7"], [100, 3, "100"]]) {
    assert.strictEqual(page.general(value, digits), text);
  }
  assert.strictEqual(page.grouped(1234567), "1,234,567");
  assert.strictEqual(page.grouped(123), "123");
});
test("addresses are of letters alone and differ where names do", () => {
  const anchor = page.anchorOf("case", "mask/gaussian/v1000/edges", "mask/gaussian/v1000/edges\ncpu");
  assert.strictEqual(anchor.replace(/[0-9a-f]{8}$/, ""), "case-mask-gaussian-v1000-edges-");
  // Addresses are given away: they stay what they were. FNV-1a has this value for "foobar".
  assert.strictEqual(page.anchorOf("cause", "foobar", "foobar"), "cause-foobar-bf9cf968");
  const other = page.anchorOf("case", "a-b", "a-b\nx");
  assert.notStrictEqual(page.anchorOf("case", "a/b", "a/b\nx"), other);
  const hostile = page.anchorOf("case", "<b onload=\"x\">\u202e" + "x".repeat(1000), "y");
  assert(/^[A-Za-z0-9_-]{1,64}$/.test(hostile), hostile);
});

test("nothing is read as markup or as script", () => {
  const source = fs.readFileSync(process.argv[2], "utf8");
  assert(!/innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write|\beval\b|new Function/
    .test(source));
});

// --- Pictures -------------------------------------------------------------------------------------
test("residuals: one picture an axis, and the bad bin in words", () => {
  const text = drawn(page.residuals(detailOf("binomial").profiles));
  assert.strictEqual(count(text, "<svg role=\"img\""), 3);
  // Lane 31 is never drawn: 31250 draws are missing, whose deviation is sqrt(31250 * 31 / 32), 174.
  says(text,
    "Farthest off: lane (id modulo 32) 31: observed 0, expected 31250, -180 standard deviations");
  assert(count(text, DIAMOND) > 0);
});
test("residuals: a draw where none may be is outside", () => {
  const bins = [[0, 0, 100, 99], [1, 1, 100, 100], [2, 2, 0, 1]];
  const text = drawn(page.residuals([{axis: "id", modulus: 0, draws: 200, bins}]));
  assert.strictEqual(count(text, DIAMOND), 1);
});
test("PIT: a curve that leaves its band is told", () => {
  const pit = {name: "by id", draws: 1000, band: 0.1, distance: 0.05, difference: [0, 0.05, 0]};
  says(drawn(page.pitPlot(pit)), "stays within");
  pit.distance = pit.difference[1] = 0.11;
  says(drawn(page.pitPlot(pit)), "leaves");
});
test("growth: evidence at the line decides", () => {
  const growth = {name: "tiles", decision: 12, points: [[0, 0], [1000, 11.9]]};
  says(drawn(page.growthPlot(growth)), "stays below");
  growth.points.push([2000, 12]);
  says(drawn(page.growthPlot(growth)), "reaches");
});
const casesWith = (values) => values.map((p) => ({p, id: "a", sampler: "cpu", finds: null, detail: {}}));
test("QQ: uniform p values lie within the band", () => {
  // Fractions of multiples of the golden ratio are spread more evenly than chance would.
  const even = Array.from({length: 2500}, (_, i) => (i + 1) * 0.6180339887498949 % 1);
  const text = drawn(page.qqPlot(casesWith(even)));
  assert.strictEqual(count(text, DIAMOND), 0);
  says(text, "No point lies above");
});
test("QQ: the band at the smallest of m is where its probability says", () => {
  // Of one p value both edges solve KL = log(40): for the upper, i = 1 = m and log(1 / x) = log 40,
  // so x = 1/40, which is also exact: a uniform number is below it with probability 0.05 / 2.
  assert.strictEqual(count(drawn(page.qqPlot(casesWith([0.0251]))), DIAMOND), 0);
  assert.strictEqual(count(drawn(page.qqPlot(casesWith([0.0249]))), DIAMOND), 1);
});
test("without a number there is no picture", () => {
  assert.strictEqual(page.qqPlot(casesWith([null])), null);
  assert.strictEqual(page.powerOfAll(casesWith([null])), null);
  assert.strictEqual(page.conformancePlot([]), null);
});
test("dependence: cells beyond the bound are marked", () => {
  const text = drawn(page.dependencePlot(detailOf("streams").dependence[0]));
  assert.strictEqual(count(text, "<rect"), 64);
  assert.strictEqual(count(text, "beyond\" x="), 2 * 2);  // a cell and its sign, rows 2 and 5
  says(text, "Farthest: row 2 and row 5, z +31");
});
test("boundary: what contradicts the oracle is wrong", () => {
  const tokens = [], add = (oracle, kept, times) => tokens.push({token: tokens.length, logit: 0,
    cumulative_low: 0, cumulative_high: 0, oracle, kept, drawn: times});
  add("in", true, null);
  add("ambiguous", true, 3);
  add("out", false, 0);
  add("in", null, 0);  // not drawn: chance may do that
  const boundary = {row: 0, filters: "top_p 0.9", tokens};
  assert.strictEqual(count(drawn(page.boundaryTable(boundary)), "wrong"), 0);
  add("in", false, null);
  add("out", true, null);
  add("out", null, 1);
  assert.strictEqual(count(drawn(page.boundaryTable(boundary)), "<tr class=\"wrong\">"), 3);
});
const maskOf = (filters, probabilities, must, kept) => {
  let sum = 0;
  return {row: 3, filters, tokens: probabilities.map((probability, i) => {
    const before = sum;
    sum += probability;
    return {token: 100 + i, logit: -0.5 * i, cumulative_low: before, cumulative_high: sum,
      oracle: i < must ? "in" : "out", kept: i < kept, drawn: null};
  })};
};
const ALONE = "temperature 1, top_k 0, top_p 0.7, min_p 0";
test("mask: has the line of p and the wrong token", () => {
  const dropped = maskOf(ALONE, [0.4, 0.2, 0.2, 0.2], 3, 2);
  // A fifth of the picture, of a quarter that is wide enough, and the line at 0.7 of it.
  const clarity = 0.5 * 0.2 / 0.25 + 0.5 * 4 * 0.7 * 0.3;
  assert(Math.abs(page.clarityOfMask(dropped) - clarity) < 1e-12);
  const bar = drawn(page.maskBar(dropped));
  says(bar, ">top_p 0.7</text>");
  says(bar, "must be kept; the sampler keeps 2. Wrong: token 102, of probability 0.2, is dropped.");
  assert.strictEqual(count(bar, "<rect class=\"wrong\""), 1);
  assert.strictEqual(count(bar, "<rect class=\"in\""), 3 + 2);
  const right = maskOf(ALONE, [0.4, 0.2, 0.2, 0.2], 3, 3);
  assert.strictEqual(page.clarityOfMask(right), 0);
  says(drawn(page.maskBar(right)), "None is wrong.");
});
test("mask: where other filters come first the line is where the reference cuts", () => {
  const filters = "temperature 1, top_k 3, top_p 0.9, min_p 0";
  const bar = drawn(page.maskBar(maskOf(filters, [0.4, 0.2, 0.2, 0.2], 3, 3)));
  assert.strictEqual(count(bar, "top_p 0.9</text>"), 0);
  says(bar, ">the filters cut here</text>");
});
test("mask: a wrong token beside a likely one is not a sliver", () => {
  // A thousandth of the mass that is there, and a ninth without the likely token.
  const bar = drawn(page.maskBar(maskOf("temperature 1, top_k 4, top_p 1, min_p 0",
    [0.99, 0.004, 0.003, 0.001, 0.001, 0.001], 3, 4)));
  says(bar, "Wrong: token 103");
  says(bar, "<title>token 102:");
  assert.strictEqual(count(bar, "<title>token 100:"), 0);
});
test("mask: without a width there is none", () => {
  assert.strictEqual(page.maskBar({row: 0, filters: "", tokens: []}), null);
  assert.strictEqual(page.maskBar(maskOf("", [0, 0, 0], 1, 2)), null);
  assert.strictEqual(page.maskBar(maskOf("", [NaN, Infinity, -1e308], 1, 2)), null);
});
test("kill matrix, conformance and benchmark say the worst", () => {
  const {mutants, benchmark} = sample("evidence");
  says(drawn(page.killMatrix(mutants)), "2 of 3 wrong samplers were found. Survivors: too-subtle.");
  says(drawn(page.benchmarkBars(benchmark)), "Farthest from it: softmax on scalar, 47.5 times");
  const cases = ["a", "b"].map((sampler) => ({sampler, semantics: "x", check: "c", verdict: "passed"}));
  says(drawn(page.conformancePlot(cases)), "2 of 2 samplers pass");
  cases[1].verdict = "error";
  says(drawn(page.conformancePlot(cases)), "1 of 2 samplers pass");
});

// --- Sections -------------------------------------------------------------------------------------
test("bugs of engines are links to where they are told", () => {
  const root = draw(sample("evidence"));
  const links = [...section(root, "causes").matchAll(/ href="(https:[^"]*)"/g)];
  assert(links.length > 0, "no link to a bug of an engine");
  const shown = (source) => page.linked(source).flat().map((one) =>
    typeof one === "string" ? one : one.getAttribute("href") + "|" + one.textContent).join("");
  assert.strictEqual(shown("llama.cpp PR #1953; Biohub/esm PR #360"), "llama.cpp PR " +
    "https://github.com/ggml-org/llama.cpp/issues/1953|#1953; Biohub/esm PR " +
    "https://github.com/Biohub/esm/issues/360|#360");
  assert.strictEqual(shown("candle sampling.rs @40f1e7b"), "candle sampling.rs " +
    "https://github.com/huggingface/candle/commit/40f1e7b|@40f1e7b");
  assert.strictEqual(shown("no engine of ours #3"), "no engine of ours #3");
});
test("what to change is in front of all counts", () => {
  const data = sample("evidence"), top = draw(data).querySelector("#top").outerHTML;
  const [first] = data.groups;
  assert(first.change, "the sample's first cause has nothing to change");
  says(top, "What to change");
  assert(top.indexOf("What to change") < top.indexOf("tiles"), "counts come first");
});
test("a green page says what it proves and what not, and a red one does not", () => {
  const green = section(draw(sample("green")), "proof");
  for (const part of ["It shows", "It does not show", "almost certainly"]) says(green, part);
  assert.strictEqual(section(draw(sample("evidence")), "proof"), "");
});
test("every failed case is in one card with an address of its own", () => {
  const data = sample("red"), root = draw(data);
  const places = root.querySelectorAll("details.case").map((one) => one.getAttribute("id"));
  assert.strictEqual(places.length, 68);
  assert.strictEqual(new Set(places).size, 68);
  assert.strictEqual(root.querySelectorAll("article").length, data.groups.length);
  const causes = data.groups.filter((group) => group.bug).length;
  assert(causes > 1);
  says(section(root, "causes"), "68 failed cases have " + causes + " causes.");
  says(section(root, "causes"), "What to change");
  says(section(draw(sample("evidence")), "causes"), " Checks without a failed case: ");
});
test("of a thousand failures the page shows some and names the rest", () => {
  const data = sample("red"), [group] = data.groups;
  group.cases = Array.from({length: 1000}, (_, i) => group.cases[i % group.cases.length]);
  data.groups = [group];
  const root = draw(data);
  assert.strictEqual(root.querySelectorAll("details.case").length, 80);
  says(section(root, "causes"), "And 920 more: ");
  says(section(root, "causes"), "all are in the table");
  // Of a second cause those for which there is room.
  data.groups = [group, Object.assign({}, group, {name: "another"})];
  assert.strictEqual(draw(data).querySelectorAll("details.case").length, 100);
});
test("a cell of the heat map says its counts and leads to its cases", () => {
  const map = section(draw(sample("small")), "checks");
  says(map, "<a class=\"show bad\" " +
    "href=\"#cases?sampler=plugin%3Ademo&amp;check=g_test&amp;verdict=failed\">");
  says(map, "g_test on plugin:demo: 1 failed, 0 error, 0 underpowered, 0 passed, 0 skipped");
  assert.strictEqual(section(draw(sample("empty")), "checks"), "");
  // Thousands of samplers are no picture.
  const data = sample("small"), [row] = data.cases;
  data.samplers = data.checks = Array.from({length: 1000}, (_, i) => "s" + i);
  data.cases = data.samplers.map((_, i) => row.slice(0, 1).concat([i, "a", row[3], i], row.slice(5)));
  data.groups = [];
  const many = section(draw(data), "checks");
  assert(many.length < 1e6);
  says(many, "The picture shows the first of 1,000 samplers and 1,000 checks; the table shows all.");
});
test("earlier runs are shown, and what changed is linked", () => {
  const data = sample("evidence"), {runs} = data.history;
  const rows = () => section(draw(data), "history");
  assert.strictEqual(count(rows(), "<tr"), 1 + runs.length);
  says(rows(), "<a href=\"../monday/index.html\">21 November 2026, 22:00 UTC</a>");
  says(rows(), "(this run)");
  says(draw(data).querySelector("a.history").outerHTML, "3 runs, this one last: 1 passed.");
  // Where an earlier run's page is known, what turned red there is shown there.
  const link = "<a href=\"../tuesday/index.html#case-";
  assert.strictEqual(count(rows(), link), 0);
  runs[1].page = "../tuesday/index.html";
  assert(count(rows(), link) > 0);
  // A red case of this run has a card, which is where the link leads.
  const one = draw(data).querySelector("details.case").getAttribute("id");
  const [place] = data.groups[0].cases, row = data.cases[place];
  const change = {id: row[2], sampler: data.samplers[row[1]], base: null, head: "failed"};
  runs[2].changes = {compared: 1, verdicts: 1, worse: 1, first: [change]};
  says(rows(), "<a href=\"#" + one + "\">");
  says(rows(), "absent \u2192 ");
  assert.strictEqual(section(draw(sample("red")), "history"), "");
});
test("what a run requires and lacks, and what to declare", () => {
  const data = sample("small");
  data.coverage.unmet = ["plugin:mine.so: seeds was not judged"];
  const judged = section(draw(data), "coverage");
  says(judged, "Required, and missing: plugin:mine.so: seeds was not judged");
  says(judged, data.coverage.sentences[0]);
});

// --- The table ------------------------------------------------------------------------------------
const ids = (root) => root.querySelectorAll("button.row").map((one) => one.textContent);
test("the table filters, sorts, pages and opens, and its address says how", () => {
  const data = sample("green"), root = draw(data);
  const [sampler, check] = ["f-sampler", "f-check"].map((id) => root.querySelector("#" + id));
  says(root.querySelector("#shown").textContent, "2,500 of 2,500 cases.");
  assert.strictEqual(ids(root).length, 100);
  sampler.value = sampler.options[1].value;
  sampler.fire("change");
  const name = sampler.options[1].textContent;
  assert.strictEqual(global.location.hash, "#cases?" + new URLSearchParams({sampler: name}));
  const rows = data.cases.filter((row) => data.samplers[row[1]] === name).length;
  says(root.querySelector("#shown").textContent, page.grouped(rows) + " of 2,500 cases.");
  root.querySelector("#f-clear").click();
  assert.strictEqual(global.location.hash, "#cases");
  root.querySelector("#next").click();
  says(root.querySelector("#page").textContent, "Page 2 of 25");
  const heads = root.querySelectorAll("button").filter((one) => one.textContent === "Case");
  heads[0].click();
  assert.deepStrictEqual(ids(root), ids(root).slice().sort());
  heads[0].click();
  assert.strictEqual(global.location.hash, "#cases?sort=-case");
  const first = root.querySelector("button.row");
  first.click();
  const details = root.querySelector("tr.details");
  says(details.outerHTML, "Link to this case");
  // A new window at this address has the case, opened.
  const link = details.querySelectorAll("a").pop().getAttribute("href");
  const again = draw(data, link);
  assert.deepStrictEqual(ids(again), [first.textContent]);
  assert(again.querySelector("tr.details") !== null);
  assert.strictEqual(ids(draw(data, "#cases?check=no-such-check")).length, 0);
  assert(check.options.length > 1);
});
test("an address opens what it leads to", () => {
  const data = sample("red"), cards = draw(data).querySelectorAll("details.case");
  const place = cards.pop().getAttribute("id");
  const found = draw(data, "#" + place).querySelector("#" + place);
  assert(found.open && found.closest("details.members").open && found.scrolled === 1);
  assert(ids(draw(data, "#%E0%A4%A")).length > 0);
});
test("a replay line is that of its case", () => {
  const data = sample("small");
  const text = draw(data).querySelector("div.replay").querySelector("code").textContent;
  assert.strictEqual(text, "fairdraw replay --case sample/top_k/zipf/v1000");
});

openPage();
let failed = 0;
for (const [name, run] of tests) {
  try {
    run();
  } catch (error) {
    ++failed;
    console.log("FAILED: " + name + "\n" + error.stack);
  }
}
for (const name of fs.readdirSync(folder)) {
  const start = Date.now();
  fs.writeFileSync(path.join(folder, name, "drawn.html"), draw(sample(name)).outerHTML);
  console.log(name + ": drawn in " + (Date.now() - start) + " ms");
}
console.log(tests.length + " tests, " + failed + " failed");
process.exit(failed ? 1 : 0);
