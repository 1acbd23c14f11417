// The script of index.html: draws the page from the record in its data block, filters, sorts and
// pages the table of all cases, keeps what was chosen in the page's address, opens what an address
// leads to, and copies replay lines. It loads nothing, and what the record says becomes text and
// attributes (textContent, setAttribute), never markup.
"use strict";
(() => {
// --- Elements -----------------------------------------------------------------------------------
const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.flat(Infinity).filter(Boolean));
  return element;
};
// Children: elements, texts, lists of them; what is false or empty is left out.
const make = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const code = (text) => make("code", null, text);
const badge = (verdict, text) => make("span", {class: "verdict " + verdict}, text || verdict);
const entry = (term, ...content) => [make("dt", null, term), make("dd", null, content)];
const list = (entries, kind) => entries.length ? make("dl", {class: kind}, entries) : null;
const figures = (pictures) => pictures.length ? make("div", {class: "figures"}, pictures) : null;

// Columns of numbers are named with a leading '#'. A row: its cells, and the class of it.
const table = (caption, columns, rows, kind) => {
  const isNumber = (i) => columns[i].startsWith("#") && "number";
  return make("div", {class: "scroll", tabindex: 0}, make("table", {class: kind},
    caption && make("caption", null, caption),
    make("thead", null, make("tr", null, columns.map((column, i) =>
      make("th", {scope: "col", class: isNumber(i)}, column.replace("#", ""))))),
    make("tbody", null, rows.map((row) => make("tr", {class: row.kind}, row.map((cell, i) =>
      make("td", {class: isNumber(i)}, cell)))))));
};

// --- Numbers and names ----------------------------------------------------------------------------
const finite = Number.isFinite;
const of = (value) => value === null || value === undefined ? NaN : value;

// As printf's %g: so many significant digits.
const general = (value, digits) => {
  if (!finite(value)) return value === Infinity ? "inf" : value === -Infinity ? "-inf" : "nan";
  if (value === 0) return "0";
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power), size = String(Math.abs(exponent)).padStart(2, "0");
  const shorter = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  if (exponent >= -4 && exponent < digits) return shorter(value.toFixed(digits - 1 - exponent));
  return shorter(mantissa) + (exponent < 0 ? "e-" : "e+") + size;
};
const signed = (value, digits) => (value >= 0 ? "+" : "") + general(value, digits);
const number = (value) => value === null || value === undefined ? "-" : general(value, 4);
const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
const plural = (count, what) => grouped(count) + " " + what + (count === 1 ? "" : "s");
const shorten = (text, most) => {
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most).join("") + "\u2026" : text;
};

// Places on the page: a name as far as an address can hold it, and a number made of the whole name
// (FNV-1a, which keeps no secret). The same in every run.
const anchorOf = (kind, name, whole) => {
  let hash = 2166136261;
  for (const byte of new TextEncoder().encode(whole)) hash = Math.imul(hash ^ byte, 16777619);
  const slug = name.replace(/^[^A-Za-z0-9_]+/, "").replace(/[^A-Za-z0-9_]+/g, "-").slice(0, 48);
  return kind + "-" + slug + "-" + (hash >>> 0).toString(16).padStart(8, "0");
};
const anchorOfCase = (id, sampler) => anchorOf("case", id, id + "\n" + sampler);
const anchorOfCause = (name) => anchorOf("cause", name, name);

// --- Plots ----------------------------------------------------------------------------------------
// Colours, strokes and fonts are the style sheet's: a picture names what a shape is and never how it
// looks. What tells one thing from another is shape as well as colour, and every picture has its
// content in words. Points that are no numbers are left out, those beyond an axis lie on its end.
const picture = (title, words, width, height, ...shapes) =>
  shape("svg", {role: "img", viewBox: "0 0 " + width.toFixed(0) + " " + height.toFixed(0),
    width: width.toFixed(0), height: height.toFixed(0), "aria-label": title + ". " + words},
  shape("desc", null, words), shapes);
const label = (kind, x, y, text) =>
  shape("text", {class: kind, x: x.toFixed(1), y: y.toFixed(1)}, text);
const path = (kind, d, tip) => shape("path", {class: kind, d}, tip && shape("title", null, tip));
const box = (kind, x, y, width, height, tip) =>
  shape("rect", {class: kind, x: x.toFixed(1), y: y.toFixed(1), width: width.toFixed(1),
    height: height.toFixed(1)}, tip && shape("title", null, tip));
const within = (value, low, high) => Math.min(Math.max(value, low), high);

// An axis over all numbers among the values (positive ones if logarithmic), and `least` wide (a
// factor if logarithmic), so that a single value is in the middle of something.
const axisOver = (name, values, logarithmic, least) => {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!finite(value) || (logarithmic && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) low = high = logarithmic ? 1 : 0;
  if (logarithmic) {
    const more = Math.sqrt(Math.max(1, least * low / high));
    low = Math.max(low / more / 1.2, 1e-300);  // a little air at both ends
    high = Math.min(high * more * 1.2, 1e300);
  } else {
    low = Math.max(low, -1e300);
    high = Math.min(high, 1e300);
    // Where an axis is far from zero, `least` may be less than what a number can add to it.
    const enough = Math.max(least, 1e-9 * Math.max(Math.abs(low), Math.abs(high)));
    const more = Math.max(0, enough - (high - low)) / 2;
    low -= more;
    high += more;
  }
  return {name, low, high, logarithmic};
};
// An axis whose length is a positive number, whatever was computed for its ends.
const usable = (axis) => {
  const length = axis.high - axis.low;
  if (finite(length) && length > 0 && (!axis.logarithmic || axis.low > 0)) return axis;
  const ends = axis.logarithmic ? {low: 1, high: 10} : {low: 0, high: 1};
  return Object.assign({}, axis, ends);
};
// Share of the axis' length at which a value lies. Differences of logarithms: the ratio of the ends
// may be more than a number holds.
const shareOf = (axis, value) => within(axis.logarithmic
  ? (Math.log(Math.max(value, axis.low)) - Math.log(axis.low)) /
    (Math.log(axis.high) - Math.log(axis.low))
  : (value - axis.low) / (axis.high - axis.low), 0, 1);
// Decades, or round numbers; about five of them.
const ticksOf = (axis) => {
  const ticks = [], most = 5;
  if (axis.bare) return ticks;
  if (axis.logarithmic) {
    const first = Math.ceil(Math.log10(axis.low) - 1e-9);
    const last = Math.floor(Math.log10(axis.high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first) / most));
    for (let e = first; e <= last; e += step) ticks.push(Math.pow(10, e));
    if (ticks.length > 2) return ticks;
    ticks.length = 0;  // less than two decades: also 2 and 5 of each
    for (let e = first - 1; e <= last + 1; ++e) {
      for (const factor of [1, 2, 5]) {
        const tick = factor * Math.pow(10, e);
        if (tick >= axis.low && tick <= axis.high) ticks.push(tick);
      }
    }
    return ticks;
  }
  // 1, 2 or 5 times a power of ten.
  const raw = (axis.high - axis.low) / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) || 10);
  const first = Math.ceil(axis.low / step), count = Math.floor(axis.high / step) - first;
  for (let i = 0; i <= count; ++i) ticks.push((first + i) * step);
  return ticks;
};
const tickText = (value) => {
  const size = Math.abs(value);
  if (size === 0 || (size < 1e4 && size >= 1e-3)) return general(value, 3);
  const exponent = Math.floor(Math.log10(size) + 1e-9);
  return general(value / Math.pow(10, exponent), 3) + "e" + exponent;
};

const LEFT = 54, RIGHT = 10, TOP = 26, BOTTOM = 36;
// A plot of two axes. What draws on it adds shapes; svg() gives the whole of it.
const plotOf = (title, words, xAxis, yAxis, width = 360, height = 220) => {
  const x = usable(xAxis), y = usable(yAxis), shapes = [];
  const xOf = (value) => LEFT + shareOf(x, value) * (width - LEFT - RIGHT);
  const yOf = (value) => height - BOTTOM - shareOf(y, value) * (height - TOP - BOTTOM);
  const isPoint = ([a, b]) => finite(a) && finite(b);
  // A tenth of a unit is less than a pixel shows.
  const coordinate = (value) => String(Number(value.toFixed(1)));
  const pathOf = (points, first) => points.filter(isPoint).map((point, i) =>
    (i === 0 ? first : "L") + coordinate(xOf(point[0])) + " " + coordinate(yOf(point[1]))).join("");
  const add = (kind, d) => { if (d) shapes.push(path(kind, d)); };
  const plot = {
    area: (low, high, kind) => {
      const there = pathOf(low, "M");
      if (there) add(kind, there + pathOf(high.slice().reverse(), "L") + "Z");
    },
    // Points to the left or to the right of the plot are left out.
    line: (points, kind) => {
      add(kind, pathOf(points.filter((point) => point[0] >= x.low && point[0] <= x.high), "M"));
    },
    level: (at, text, kind) => {
      if (!finite(at)) return;
      plot.line([[x.low, at], [x.high, at]], kind);
      // Beneath the line where there is no room above it.
      const place = yOf(at) - TOP < 14 ? yOf(at) + 12 : yOf(at) - 4;
      if (text) shapes.push(label("note", width - RIGHT - 2, place, text));
    },
    // Strokes from the ordinate 0 to each point.
    stems: (points, kind) =>
      add("stem " + kind, points.map((point) => pathOf([[point[0], 0], point], "M")).join("")),
    // One path, where hundreds of dots would be most of a page: strokes without length have round ends.
    dots: (points, kind) => add("dots " + kind,
      points.filter(isPoint).map((point) => pathOf([point], "M") + "h0").join("")),
    dot: (point, kind, tip) => {
      if (isPoint(point)) shapes.push(shape("circle", {class: kind, cx: xOf(point[0]).toFixed(1),
        cy: yOf(point[1]).toFixed(1), r: 2.5}, tip && shape("title", null, tip)));
    },
    // The shape of what lies outside of where it should.
    diamond: (point, kind, tip) => {
      if (isPoint(point)) shapes.push(path(kind, "M" + xOf(point[0]).toFixed(1) + " " +
        (yOf(point[1]) - 4.5).toFixed(1) + "l4.5 4.5l-4.5 4.5l-4.5 -4.5Z", tip));
    },
    svg: () => {
      const one = (value) => value.toFixed(1), low = height - BOTTOM;
      return picture(title, words, width, height, label("title", 4, 14, title),
        ticksOf(y).map((tick) => [
          path("grid", "M" + LEFT + " " + one(yOf(tick)) + "H" + (width - RIGHT)),
          label("tick y", LEFT - 5, yOf(tick) + 3.5, tickText(tick))]),
        ticksOf(x).map((tick) => [path("grid", "M" + one(xOf(tick)) + " " + low + "v4"),
          label("tick x", xOf(tick), low + 15, tickText(tick))]),
        path("axis", "M" + LEFT + " " + TOP + "V" + low + "H" + (width - RIGHT)),
        label("label", (LEFT + width - RIGHT) / 2, height - 5, x.name),
        shape("text", {class: "label", transform: "rotate(-90)", x: -(TOP + low) / 2, y: 10}, y.name),
        shapes);
    }};
  return plot;
};

// --- Pictures of a case ---------------------------------------------------------------------------
// Residuals beyond this many standard deviations are drawn as outside. It decides nothing: of some
// hundred bins of a right sampler, fewer than one in two pictures has one.
const OUTSIDE = 3;
const axisName = (profile) => profile.axis === "lane" ? "lane (id modulo " + profile.modulus + ")"
  : profile.axis === "id" ? "token id" : profile.axis;
const binsOf = (profile) => profile.bins.map(([first, last, expected, observed]) => {
  // Draws of a bin are binomial.
  const share = profile.draws > 0 ? of(expected) / profile.draws : 0;
  const deviation = Math.sqrt(Math.max(0, of(expected) * (1 - share)));
  const excess = of(observed) - of(expected);
  // A bin that must be empty has no deviation: one draw there is as far off as can be.
  const residual = deviation > 0 ? excess / deviation : excess === 0 ? 0 : excess / 0;
  const place = first === last ? grouped(first) : grouped(first) + " to " + grouped(last);
  return {expected: of(expected), observed: of(observed), deviation, residual,
    isOutside: Math.abs(residual) > OUTSIDE,
    tip: axisName(profile) + " " + place + ": observed " + general(of(observed), 6) + ", expected " +
      general(of(expected), 6) + ", " + signed(residual, 3) + " standard deviations"};
});
const farthest = (bins) => {
  let worst = null;
  for (const bin of bins) {
    if (!worst || Math.abs(bin.residual) > Math.abs(worst.residual)) worst = bin;
  }
  return worst ? "Farthest off: " + worst.tip + "." : "No bin.";
};
// Bins lie side by side at equal widths: a tail of a hundred thousand ranks is one bin.
const binAxis = (profile) => {
  const bins = profile.bins, count = Math.max(1, bins.length);
  return {low: -0.5, high: count - 0.5, bare: true, name: axisName(profile) + (bins.length
    ? ", " + grouped(bins[0][0]) + " to " + grouped(bins[bins.length - 1][1]) + " in " +
      bins.length + " bins" : "")};
};
const largest = (profile) => binsOf(profile).reduce((most, bin) =>
  finite(bin.residual) ? Math.max(most, Math.abs(bin.residual)) : most, 0);
const residualPlot = (profile, most) => {
  const bins = binsOf(profile), inside = [], beyond = [];
  const plot = plotOf("Residuals by " + axisName(profile), farthest(bins), binAxis(profile),
    {name: "standard deviations", low: -most, high: most});
  plot.level(0, "", "axis");
  plot.level(OUTSIDE, "", "limit");
  plot.level(-OUTSIDE, "", "limit");
  bins.forEach((bin, i) => {
    const at = [i, within(bin.residual, -most, most)];
    (bin.isOutside ? beyond : inside).push(at);
    if (bin.isOutside) plot.diamond(at, "outside", bin.tip);
  });
  plot.stems(inside, "observed");
  plot.stems(beyond, "outside");
  return plot.svg();
};
// One picture for each axis, all to the same scale: where they are large together names the bug.
// Noise must not fill the picture.
const residuals = (profiles) => {
  const most = Math.max(2 * OUTSIDE, ...profiles.map((one) => 1.05 * largest(one)));
  return profiles.map((one) => residualPlot(one, most));
};
const clearestResiduals = (profiles) => residuals([profiles.reduce((best, one) =>
  largest(one) > largest(best) ? one : best)])[0];
// Observed against expected, with a band of three standard deviations.
const profilePlot = (profile) => {
  const bins = binsOf(profile);
  // A bin without a draw lies on the axis: the logarithm has no place for it.
  const y = axisOver("draws in the bin", bins.map((bin) => [bin.expected, bin.observed]).flat(),
    true, 10);
  y.low = Math.min(y.low, 0.5);
  const plot = plotOf("Observed and expected by " + axisName(profile), farthest(bins),
    binAxis(profile), y);
  const edges = (value) => bins.map((bin, i) =>
    [[i - 0.5, value(bin)], [i + 0.5, value(bin)]]).flat();
  plot.area(edges((bin) => Math.max(bin.expected - OUTSIDE * bin.deviation, y.low)),
    edges((bin) => bin.expected + OUTSIDE * bin.deviation), "band");
  plot.line(edges((bin) => bin.expected), "expected");
  const inside = [];
  bins.forEach((bin, i) => {
    if (bin.isOutside) plot.diamond([i, bin.observed], "outside", bin.tip);
    else inside.push([i, bin.observed]);
  });
  plot.dots(inside, "observed");
  return plot.svg();
};
// Difference of the empirical and the uniform distribution function, with its simultaneous band.
const pitPlot = (pit) => {
  const band = of(pit.band), isOutside = of(pit.distance) > band;
  const words = "Over " + grouped(pit.draws) + " draws the largest difference is " +
    general(of(pit.distance), 3) + "; the band's half width is " + general(band, 3) +
    ", so the curve " + (isOutside ? "leaves" : "stays within") + " it.";
  const steps = Math.max(1, pit.difference.length - 1);
  const points = pit.difference.map((value, i) => [i / steps, of(value)]);
  let most = 1.2 * band;
  for (const [, value] of points) if (finite(value)) most = Math.max(most, 1.1 * Math.abs(value));
  if (!finite(most) || most <= 0) most = 1;
  const plot = plotOf("PIT difference, " + pit.name, words, {name: "u", low: 0, high: 1},
    {name: "ECDF minus uniform", low: -most, high: most}, 280, 190);
  plot.area([[0, -band], [1, -band]], [[0, band], [1, band]], "band");
  plot.level(0, "", "axis");
  plot.line(points, isOutside ? "outside line" : "observed line");
  return plot.svg();
};
// log10 of the evidence against draws, with the line at which the case is decided.
const growthPlot = (growth) => {
  const decision = of(growth.decision);
  const points = growth.points.map(([draws, evidence]) => [draws, of(evidence)]);
  const reached = points.reduce((most, [, value]) => value > most ? value : most, -Infinity);
  const isDecided = reached >= decision;
  const words = "The evidence " + (isDecided ? "reaches" : "stays below the line, at most") +
    " 10 to the " + general(reached, 3) + "; the line of decision is 10 to the " +
    general(decision, 3) + ".";
  const plot = plotOf("Evidence: " + growth.name, words,
    axisOver("draws", [0].concat(points.map(([draws]) => draws)), false, 1),
    axisOver("log10 e", [0, 1.1 * decision].concat(points.map(([, value]) => value)), false, 1));
  plot.level(0, "", "axis");
  plot.level(decision, "decision", "limit");
  plot.line(points, isDecided ? "outside line" : "observed line");
  const last = points[points.length - 1];
  if (last && isDecided) plot.diamond(last, "outside");
  else if (last) plot.dot(last, "observed");
  return plot.svg();
};
const curveOf = (power) => power.curve.map(([draws, found]) => [draws, of(found)]);
const powerAxes = (title, words, points) => plotOf(title, words,
  axisOver("draws", points.map(([draws]) => draws), true, 100),
  axisOver("smallest discrepancy found", points.map(([, found]) => found), true, 10));
// One case's curve, with the draws made and what the case must find.
const powerPlot = (one) => {
  const power = one.detail.power, made = [one.draws, one.finds], declared = of(power.declared);
  const words = grouped(one.draws) + " draws find a total variation of " + general(one.finds, 3) +
    "; the case must find " + general(declared, 3) + ".";
  const plot = powerAxes("Power of " + power.statistic, words,
    curveOf(power).concat([made, [one.draws, declared]]));
  plot.line(curveOf(power), "expected");
  if (declared > 0) plot.level(declared, "must find", "limit");
  if (one.finds > declared) plot.diamond(made, "outside", words);
  else plot.dot(made, "observed", words);
  return plot.svg();
};
// An effect's value with its interval, and what was expected.
const intervalPlot = (effect) => {
  const [value, low, high, expected] =
    [effect.value, effect.low, effect.high, effect.expected].map(of);
  const axis = axisOver("", [value, low, high, expected], false, 1e-12);
  const air = 0.08 * (axis.high - axis.low);
  const at = (mark) => (6 + 188 *
    within((mark - axis.low + air) / (axis.high - axis.low + 2 * air), 0, 1)).toFixed(1);
  const words = general(value, 4) + ", interval " + general(low, 4) + " to " + general(high, 4) +
    (finite(expected) ? ", expected " + general(expected, 4) : "");
  return picture(effect.name, words, 200, 26, path("axis", "M6 18H194"),
    finite(low) && finite(high) && path("interval",
      "M" + at(low) + " 10H" + at(high) + "M" + at(low) + " 6v8M" + at(high) + " 6v8"),
    finite(value) && shape("circle", {class: "observed", cx: at(value), cy: 10, r: 3}),
    finite(expected) && path("mark", "M" + at(expected) + " 3V24"));
};

// --- The boundary of a mask -----------------------------------------------------------------------
const wasDrawn = (token) => token.drawn !== null && token.drawn > 0;
// The oracle is sure of the token, and the sampler did the other thing.
const isWrong = (token) => token.oracle === "out" ? token.kept === true || wasDrawn(token)
  : token.oracle === "in" && token.kept === false;
// What the sampler does with a token: its mask says so, or else that it was drawn.
const isKept = (token) => token.kept === null ? wasDrawn(token) : token.kept;
const massOf = (token) => {
  const width = of(token.cumulative_high) - of(token.cumulative_low);
  return finite(width) && width > 0 ? width : 0;
};
const spanOf = (tokens) => tokens.length === 0 ? 0
  : of(tokens[tokens.length - 1].cumulative_high) - of(tokens[0].cumulative_low);
const wrongMass = (tokens) => tokens.filter(isWrong).reduce((sum, one) => sum + massOf(one), 0);
// The tokens that a picture shows: all that the evidence has, or, where the wrong ones would be
// slivers beside likely ones, as few of their neighbours as make them visible.
const shownTokens = (boundary) => {
  const VISIBLE = 0.04, FEWEST = 4, wrong = wrongMass(boundary.tokens);
  let shown = boundary.tokens;
  while (shown.length > FEWEST && wrong > 0 && wrong < VISIBLE * spanOf(shown)) {
    const head = shown[0], tail = shown[shown.length - 1];
    if (isWrong(head) && isWrong(tail)) break;
    const dropsHead = !isWrong(head) && (isWrong(tail) || massOf(head) >= massOf(tail));
    shown = dropsHead ? shown.slice(1) : shown.slice(0, -1);
  }
  const span = spanOf(shown);
  return finite(span) && span > 0 ? shown : [];
};
// The number behind a name in the words that a row's parameters are described with: "top_p 0.9".
const parameterOf = (filters, name) => {
  const at = filters.indexOf(name + " ");
  return at < 0 ? NaN : parseFloat(filters.slice(at + name.length + 1));
};
// Where the filters cut. With top_p alone that is p on this scale; other filters in front of it
// change what p is a share of, and then the line is where the oracle ends. Null: nowhere.
const cutOf = (boundary, shown) => {
  const topP = parameterOf(boundary.filters, "top_p");
  const isAlone = !parameterOf(boundary.filters, "top_k") && !parameterOf(boundary.filters, "min_p");
  const low = of(shown[0].cumulative_low), high = of(shown[shown.length - 1].cumulative_high);
  if (isAlone && topP > 0 && topP < 1) {
    return topP < low || topP > high ? null : {mass: topP, name: "top_p " + general(topP, 9)};
  }
  const last = shown.map((token) => token.oracle).lastIndexOf("in");
  return last < 0 || last === shown.length - 1 ? null
    : {mass: of(shown[last].cumulative_high), name: "the filters cut here"};
};
// How well the picture shows a mistake, from 0 (none, or no picture) to 1: one wrong token that is
// wide, and the line of the cut well within.
const clarityOfMask = (boundary) => {
  const WIDE = 0.25;  // a wrong token of that share of the picture is as clear as any
  const shown = shownTokens(boundary), wrong = shown.filter(isWrong).length;
  if (wrong === 0) return 0;
  const share = Math.min(1, wrongMass(shown) / spanOf(shown) / WIDE);
  const cut = cutOf(boundary, shown);
  const at = cut ? (cut.mass - of(shown[0].cumulative_low)) / spanOf(shown) : 0;  // 0.5: the middle
  return (0.5 * share + 0.5 * 4 * at * (1 - at)) / wrong;
};
const wordsOfMask = (boundary, shown) => {
  const wrong = shown.filter(isWrong).map((token) => "token " + token.token + ", of probability " +
    general(massOf(token), 3) + ", is " + (isKept(token) ? "kept" : "dropped"));
  return "Row " + boundary.row + ": " + boundary.filters + ". " +
    shown.filter((token) => token.oracle === "in").length + " of " + shown.length +
    " tokens around the boundary must be kept; the sampler " +
    (shown[0].kept === null ? "drew" : "keeps") + " " + shown.filter(isKept).length + ". " +
    (wrong.length ? "Wrong: " + wrong.join("; ") + "." : "None is wrong.");
};
// Two bars, what must be kept and what the sampler keeps or draws: tokens by falling probability,
// each as wide as its probability. Null where no token has a width.
const maskBar = (boundary) => {
  const WIDTH = 470, FROM = 8, TO = 462, FIRST = 38, SECOND = 84, LANE = 24, AXIS = 118, HEIGHT = 152;
  const shown = shownTokens(boundary);
  if (shown.length === 0) return null;
  const axis = {low: of(shown[0].cumulative_low), high: of(shown[shown.length - 1].cumulative_high)};
  const x = (mass) => FROM + (TO - FROM) * shareOf(axis, mass);
  const marks = [], segments = [];
  for (const token of shown) {
    const from = x(of(token.cumulative_low)), width = x(of(token.cumulative_high)) - from;
    if (!(width > 0)) continue;
    const gap = width > 4 ? 1 : 0;  // between tokens that are wide enough to be told apart
    const segment = (y, kind) => box(kind, from + gap / 2, y, width - gap, LANE);
    segments.push(shape("g", null,
      segment(FIRST, token.oracle === "ambiguous" ? "open" : token.oracle),
      segment(SECOND, isKept(token) ? "in" : "out"),
      shape("title", null, "token " + token.token + ": mass " + general(of(token.cumulative_low), 6) +
        " to " + general(of(token.cumulative_high), 6) + ", " + token.oracle + " by the oracle, " +
        (isKept(token) ? "kept" : "not kept"))));
    if (!isWrong(token)) continue;
    marks.push(segment(SECOND, "wrong"));
    // The first alone, right of the lane's own label.
    if (marks.length === 1) marks.push(label("wrong x", within(from + width / 2, 170, TO - 40),
      SECOND - 6, "\u2717 token " + token.token));
  }
  const ticks = ticksOf(axis);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : axis.high - axis.low;
  const decimals = within(Math.ceil(-Math.log10(step) - 1e-9), 0, 12);
  const cut = cutOf(boundary, shown);
  return picture("Mask", wordsOfMask(boundary, shown), WIDTH, HEIGHT,
    label("tick", FROM, FIRST - 6, "must be kept"),
    label("tick", FROM, SECOND - 6,
      shown[0].kept === null ? "drawn by the sampler" : "kept by the sampler"),
    segments, marks,
    ticks.map((tick) => [path("grid", "M" + x(tick).toFixed(1) + " " + AXIS + "v4"),
      label("tick x", within(x(tick), 18, WIDTH - 18), AXIS + 15, tick.toFixed(decimals))]),
    path("axis", "M" + FROM + " " + AXIS + "H" + TO),
    label("label", (FROM + TO) / 2, HEIGHT - 4, "mass of the tokens so far, by falling probability"),
    cut && [path("cut", "M" + x(cut.mass).toFixed(1) + " " + (FIRST - 20) + "V" + AXIS),
      label("cut x", within(x(cut.mass), 60, WIDTH - 60), FIRST - 25, cut.name)]);
};
const boundaryTable = (boundary) => table(
  "Boundary of the mask, row " + boundary.row + ": " + boundary.filters +
    ". Tokens by falling logit, each with the mass of the tokens before, and of these and the token.",
  ["Token", "Logit", "Mass before", "Mass with it", "Oracle", "Sampler"],
  boundary.tokens.map((token) => {
    const said = [token.kept === null ? "" : token.kept ? "kept" : "dropped",
      token.drawn === null ? "" : "drawn " + token.drawn + " times"].filter(Boolean).join(", ") || "-";
    const row = [token.token, general(of(token.logit), 9), general(of(token.cumulative_low), 9),
      general(of(token.cumulative_high), 9), token.oracle,
      said + (isWrong(token) ? " \u2717 wrong" : "")].map(String);
    row.kind = isWrong(token) && "wrong";
    return row;
  }), "boundary");

// --- Matrices -------------------------------------------------------------------------------------
const LETTER = 6.2;  // user units that a letter of a label takes, on average
// Columns' labels are upright; cellOf(row, column) gives a cell's class, mark and tip.
const matrix = (title, words, rows, columns, cellWidth, cellHeight, cellOf) => {
  const LETTERS = 34, BOLD = 1.2;  // what a bold letter takes of one that is not
  const room = (labels) => LETTER * labels.reduce((most, text) =>
    Math.max(most, Math.min([...text].length, LETTERS)), 0) + 12;
  const left = room(rows), top = room(columns) + 22;
  const x = (column) => left + cellWidth * column, y = (row) => top + cellHeight * row;
  const width = Math.max(x(columns.length) + 8, BOLD * LETTER * [...title].length + 16);
  return picture(title, words, width, y(rows.length) + 8, label("title", 4, 14, title),
    rows.map((row, i) =>
      label("tick y", left - 5, y(i) + cellHeight / 2 + 3.5, shorten(row, LETTERS))),
    columns.map((column, i) => shape("text", {class: "tick up", transform: "translate(" +
      (x(i) + cellWidth / 2 + 3.5).toFixed(1) + " " + (top - 5).toFixed(1) + ") rotate(-90)"},
    shorten(column, LETTERS))),
    rows.map((_, row) => columns.map((__, column) => {
      const [kind, mark, tip] = cellOf(row, column);
      return shape("g", null, box(kind, x(column) + 0.5, y(row) + 0.5, cellWidth - 1, cellHeight - 1),
        mark && label("mark " + kind, x(column) + cellWidth / 2, y(row) + cellHeight / 2 + 3.5, mark),
        tip && shape("title", null, tip));
    })));
};
// Scores of what must be independent: "cool" below zero, "warm" above, in steps up to the bound.
const dependencePlot = (dependence) => {
  const {rows, columns} = dependence, bound = of(dependence.bound);
  const scores = dependence.z.slice(0, rows.length * columns.length).map(of);
  const tipOf = (i) => rows[Math.floor(i / columns.length)] + " and " + columns[i % columns.length];
  let worst = -1;
  scores.forEach((z, i) => {
    if (Math.abs(z) > (worst < 0 ? -1 : Math.abs(scores[worst]))) worst = i;
  });
  const words = grouped(scores.filter((z) => Math.abs(z) > bound).length) + " of " +
    grouped(scores.length) + " scores are beyond the bound of " + general(bound, 3) + "." +
    (worst < 0 ? "" : " Farthest: " + tipOf(worst) + ", z " + signed(scores[worst], 3) + ".");
  return matrix("Dependence: " + dependence.name, words, rows, columns, 20, 20, (row, column) => {
    const i = row * columns.length + column, z = of(scores[i]), isBeyond = Math.abs(z) > bound;
    if (Number.isNaN(z)) return ["absent", "", ""];
    const share = bound > 0 ? Math.abs(z) / bound : z === 0 ? 0 : 1;
    const shade = (z < 0 ? "cool" : "warm") + Math.min(4, Math.floor(share * 4));
    return [shade + (isBeyond ? " beyond" : ""), isBeyond ? (z < 0 ? "\u2212" : "+") : "",
      tipOf(i) + ": z " + signed(z, 3)];
  });
};
// Wrong samplers against the checks that judged them.
const killMatrix = (mutants) => {
  const checks = [...new Set(mutants.map((one) => Object.keys(one.checks || {})).flat())].sort();
  const survivors = mutants.filter((one) => !one.killed).map((one) => one.name);
  const words = grouped(mutants.length - survivors.length) + " of " + grouped(mutants.length) +
    " wrong samplers were found." +
    (survivors.length ? " Survivors: " + survivors.join(", ") + "." : "");
  return matrix("Kill matrix", words, mutants.map((one) => one.name), checks, 22, 16,
    (row, column) => {
      const mutant = mutants[row], check = checks[column], by = (mutant.checks || {})[check];
      // Not judged by this check. A row without any mark is a survivor, and looks like one.
      if (by === undefined) return [mutant.killed ? "absent" : "bad", "", ""];
      return [by ? "good" : "unsure", by ? "\u2713" : "\u00b7",
        mutant.name + ": " + (by || check + " found nothing")];
    });
};

// How cases ended together.
const redOf = (counts) => counts.failed + counts.error;
const verdictOf = (counts) => ["failed", "error", "underpowered", "passed"].find((verdict) =>
  counts[verdict] > 0) || "skipped";
const kindOf = (counts) => ({failed: "bad", error: "bad", underpowered: "unsure", passed: "good",
  skipped: "absent"})[verdictOf(counts)];
const markOf = (counts) => redOf(counts) > 0 ? "\u2717" + (redOf(counts) > 1 ? redOf(counts) : "")
  : counts.underpowered > 0 ? "?" : counts.passed > 0 ? "\u2713" : "\u2013";
const noCounts = () => ({failed: 0, error: 0, underpowered: 0, passed: 0, skipped: 0});
// Cases, or numbers of them, by sampler and semantics (rows) and check (columns), each in the order
// in which it first appears.
const tallied = (cases) => {
  const rows = new Map(), columns = new Set();
  for (const one of cases) {
    const name = one.sampler + " as " + one.semantics;
    if (!rows.has(name)) {
      rows.set(name, {name, sampler: one.sampler, semantics: one.semantics, checks: new Map()});
    }
    const checks = rows.get(name).checks;
    if (!checks.has(one.check)) checks.set(one.check, noCounts());
    checks.get(one.check)[one.verdict] += one.cases || 1;
    columns.add(one.check);
  }
  return {rows: [...rows.values()], columns: [...columns]};
};
const MOST_SHOWN = 64;  // samplers or checks: of hundreds, the table is the place to look
const conformancePlot = (cases) => {
  const all = tallied(cases), rows = all.rows.slice(0, MOST_SHOWN);
  const columns = all.columns.slice(0, MOST_SHOWN);
  const conforming = rows.filter((row) => columns.every((check) =>
    !row.checks.has(check) || redOf(row.checks.get(check)) === 0)).length;
  return rows.length === 0 ? null : matrix("Conformance", conforming + " of " + rows.length +
    " samplers pass every check that judged them. A number after a cross counts the failed cases.",
  rows.map((row) => row.name), columns, 30, 22, (row, column) => {
    const counts = rows[row].checks.get(columns[column]) || noCounts();
    return [kindOf(counts), markOf(counts), rows[row].name + ", " + columns[column] + ": " +
      grouped(counts.passed) + " passed, " + grouped(redOf(counts)) + " red, " +
      grouped(counts.underpowered) + " underpowered, " + grouped(counts.skipped) + " skipped"];
  });
};

// --- Pictures of all cases ------------------------------------------------------------------------
// -log10 of the p values against those of as many uniform ones. The band: of m independent uniform p
// values let U be the i-th smallest. U <= x means that at least i of m are at most x: probability at
// most exp(-m KL(i/m, x)) for x < i/m by Chernoff's bound, and U >= x, that at most i - 1 are below
// it: at most exp(-m KL((i-1)/m, x)) for x > (i-1)/m. With KL = log(2 m / 0.05) / m at both edges of
// all m points, the sum of these 2 m probabilities is 0.05. P values that are valid but not exact are
// larger than uniform ones, which puts points below the line, and may put them below the band.
const qqPlot = (cases) => {
  const MISSED = 0.05, DOTS = 300;
  const relativeEntropy = (a, x) => (a > 0 ? a * Math.log(a / x) : 0) +
    (a < 1 ? (1 - a) * Math.log((1 - a) / (1 - x)) : 0);
  // Where the relative entropy is `bound`: by bisection, as it grows with the distance from a.
  const edge = (a, bound, isAbove) => {
    let near = a, far = isAbove ? 1 : 0;
    for (let i = 0; i < 100; ++i) {
      const middle = (near + far) / 2;
      if (relativeEntropy(a, middle) < bound) near = middle;
      else far = middle;
    }
    return near;
  };
  const sorted = cases.filter((one) => one.p !== null && one.p >= 0 && one.p <= 1)
    .sort((a, b) => a.p - b.p);
  const count = sorted.length, bound = Math.log(2 * count / MISSED) / count;
  if (count === 0) return null;
  // Beyond this a point says no more: the smallest number that is divided exactly.
  const score = (p) => -Math.log10(Math.max(p, 1e-308));
  const points = [], low = [], high = [], who = [];
  sorted.forEach((one, i) => {
    // All of the smallest, then ever fewer: the large ones lie on top of each other.
    const skip = Math.floor(i / (DOTS / 4));
    if (skip > 0 && i % (skip * skip + 1) !== 0 && i + 1 !== count) return;
    const x = score((i + 0.5) / count);
    points.push([x, score(one.p)]);
    high.push([x, score(edge((i + 1) / count, bound, false))]);
    low.push([x, score(edge(i / count, bound, true))]);
    who.push(one);
  });
  const outside = points.filter((point, i) => point[1] > high[i][1]).length;
  const words = grouped(count) + " p values; the smallest is " + general(sorted[0].p, 3) + ". " +
    (outside === 0 ? "No point lies" : outside === 1 ? "1 point lies" : grouped(outside) +
      " points lie") +
    " above the band that holds all points of a right run with a probability of 95 %.";
  const end = points[0][0];
  const plot = plotOf("p values of all cases", words,
    {name: "expected -log10 p", low: 0, high: end * 1.05 + 0.1},
    axisOver("observed -log10 p", [0].concat(points.concat(high).map((point) => point[1])), false, 1));
  plot.area(low, high, "band");
  plot.line([[0, 0], [end, end]], "expected");
  for (let i = points.length; i-- > 0;) {
    const tip = who[i].id + " on " + who[i].sampler + ": p " + general(who[i].p, 3);
    if (points[i][1] > high[i][1]) plot.diamond(points[i], "outside", tip);
    else plot.dot(points[i], "observed", i < 20 && tip);
  }
  return plot.svg();
};
// The smallest discrepancy that is found against draws, with the curves of cases that have one.
// Curves are thinned to some dozens: more of them would be one grey.
const powerOfAll = (cases) => {
  const CURVES = 40, DOTS = 1000;
  const statistical = cases.filter((one) => one.finds > 0 && one.draws > 0);
  if (statistical.length === 0) return null;
  const words = grouped(statistical.length) + " statistical cases by draws and by the smallest " +
    "total variation that they find. Lower is sharper.";
  const plot = powerAxes("What the draws find", words,
    statistical.map((one) => [one.draws, one.finds]));
  for (const one of statistical.filter((each) => each.detail.power).slice(0, CURVES)) {
    plot.line(curveOf(one.detail.power), "expected faint");
  }
  const step = Math.ceil(statistical.length / DOTS);
  for (let i = 0; i < statistical.length; i += step) {
    const one = statistical[i], at = [one.draws, one.finds];
    const tip = one.id + " on " + one.sampler + ": " + grouped(one.draws) + " draws find " +
      general(one.finds, 3);
    if (one.verdict === "underpowered") plot.diamond(at, "outside", tip);
    else plot.dot(at, "observed", tip);
  }
  return plot.svg();
};
// Time as a multiple of the floor's. A logarithmic axis that begins at 1, the floor: equal steps to
// the right are equal factors of time lost.
const benchmarkBars = (rows) => {
  const LETTERS = 64, LABELS = LETTER * LETTERS, BARS = 260, NUMBERS = 150, ROW = 18, HEAD = 34;
  let slowest = null;
  for (const row of rows) {
    if (row.ratio !== null && (!slowest || row.ratio > slowest.ratio)) slowest = row;
  }
  const most = Math.max(2, slowest ? slowest.ratio : 0), end = HEAD + ROW * rows.length;
  const widthOf = (ratio) =>
    BARS * within(Math.log(Math.max(of(ratio), 1)) / Math.log(most), 0, 1) || 0;
  const words = slowest ? "Time as a multiple of the floor. Farthest from it: " + slowest.operation +
    " on " + slowest.backend + ", " + general(slowest.ratio, 3) + " times." : "No row.";
  const marks = [];
  for (let ratio = 1; ratio <= most; ratio *= most > 32 ? 4 : 2) marks.push(ratio);
  return picture("Speed", words, LABELS + BARS + NUMBERS, end + 8,
    label("title", 4, 14, "Time as a multiple of the floor"),
    marks.map((ratio) => [
      path("grid", "M" + (LABELS + widthOf(ratio)).toFixed(1) + " " + (HEAD - 4) + "V" + end),
      label("tick x", LABELS + widthOf(ratio), HEAD - 8, ratio + "\u00d7")]),
    rows.map((row, i) => {
      const y = HEAD + ROW * i, name = row.backend + " " + row.operation + " " + row.logits + ", " +
        row.batch + " x " + row.vocab;
      return [label("tick y", LABELS - 6, y + 12, shorten(name, LETTERS)),
        box("bar", LABELS, y + 2, Math.max(1, widthOf(row.ratio)), ROW - 4, name + ": " +
          general(of(row.microseconds), 4) + " microseconds; floor " + row.floor + " " +
          general(of(row.floor_microseconds), 4)),
        label("tick after", LABELS + widthOf(row.ratio) + 6, y + 12, of(row.ratio).toFixed(2) +
          "\u00d7, " + of(row.microseconds).toFixed(1) + " \u00b5s")];
    }));
};

// --- A case in full -------------------------------------------------------------------------------
// Of a page's data: its cases as objects, in the order of the record.
const casesOf = (data) => data.cases.map(([verdict, sampler, id, semantics, check, filter, rows, vocab,
  draws, p, variation, finds, replay, message, watch, measures], place) => ({
  verdict: data.verdicts[verdict], sampler: data.samplers[sampler], id,
  semantics: data.semantics[semantics], check: data.checks[check], filter: data.filters[filter], rows,
  vocab, draws, p, variation, finds, replay, message, watch, measures,
  detail: data.details[place] || {}}));
const replayOf = (data, one) => data.replays[one.replay].map((part) =>
  part === 0 ? one.id : part === 1 ? one.sampler : part).join("");
const measuresOf = (data, one) => {
  const pairs = one.measures || [], entries = [];
  for (let i = 0; i < pairs.length; i += 2) {
    entries.push(entry(data.measures[pairs[i]], number(pairs[i + 1])));
  }
  return entries;
};
const replayLine = (text) => {
  const button = make("button", {type: "button", class: "copy"}, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", null, text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return make("div", {class: "replay"}, make("pre", {tabindex: 0}, code(text)), button);
};
// The picture that shows a failure best, and how well it does.
const clearestPicture = (detail) => {
  const clarity = detail.boundary ? clarityOfMask(detail.boundary) : 0;
  if (clarity > 0) return {draw: () => maskBar(detail.boundary), clarity: 4 + clarity};
  if (detail.profiles) return {draw: () => clearestResiduals(detail.profiles), clarity: 3};
  if (detail.dependence) return {draw: () => dependencePlot(detail.dependence[0]), clarity: 2};
  const pit = (detail.pit || []).find((one) => of(one.distance) > of(one.band));
  if (pit) return {draw: () => pitPlot(pit), clarity: 1.5};
  if (detail.growth) return {draw: () => growthPlot(detail.growth[0]), clarity: 1};
  return {draw: () => null, clarity: 0};
};
const picturesOf = (one) => {
  const {profiles, pit, growth, dependence, power, boundary} = one.detail;
  return [profiles && [figures(residuals(profiles)), figures(profiles.map(profilePlot))],
    figures([(pit || []).map(pitPlot), (growth || []).map(growthPlot),
      (dependence || []).map(dependencePlot), power && one.finds !== null ? powerPlot(one) : []]
      .flat()),
    boundary && [figures([maskBar(boundary)].filter(Boolean)), boundaryTable(boundary)]]
    .flat().filter(Boolean);
};
const strong = (text) => make("b", null, text);
// What was observed, expected and measured: entries of a list, which may be empty.
const seenEntries = (one) => {
  const {observed, expected, effect, decisive, smallest} = one.detail, entries = [];
  if (observed) entries.push(entry("Observed", strong(observed)));
  if (expected) entries.push(entry("Expected", expected));
  if (effect) {
    entries.push(entry("Effect", effect.name + ": ", strong(number(effect.value)), " [" +
      number(effect.low) + ", " + number(effect.high) + "]" +
      (effect.confidence > 0 ? " (" + general(100 * effect.confidence, 4) + " % interval)" : "") +
      (effect.expected === null ? "" : ", expected " + number(effect.expected)),
    intervalPlot(effect)));
  }
  if (decisive) {
    entries.push(entry("Evidence", decisive.statistic + ": ",
      decisive.p_value !== null ? ["p = ", strong(number(decisive.p_value)),
        ", red at " + number(decisive.level) + " or less"]
        : decisive.log10_e !== null ? ["evidence 10", make("sup", null, general(decisive.log10_e, 3)),
          ", red at " + number(1 / decisive.level) + " or more"]
          : "exact: no chance is involved"));
  }
  if (smallest) entries.push(entry("Smallest case", smallest));
  if (!entries.length && one.p !== null) entries.push(entry("Evidence", "p = " + number(one.p)));
  return entries;
};
const hintsOf = (suspects) => suspects && make("p", {class: "alone"},
  strong("By itself: " + suspects[0].bug + "."), " " + suspects[0].reason,
  suspects.slice(1).map((one) => [make("br"), "Or: " + one.bug + ". " + one.reason]));
const numbersOf = (data, one) => {
  const measured = (term, value) =>
    value === null || value === undefined ? [] : entry(term, number(value));
  return list([entry("Check", one.check), entry("Semantics", one.semantics),
    one.filter ? entry("Filter", one.filter) : [], entry("Rows", grouped(one.rows)),
    entry("Vocabulary", grouped(one.vocab)), entry("Draws", grouped(one.draws)),
    measured("Statistic", one.detail.statistic), measured("Degrees of freedom", one.detail.dof),
    measured("p value", one.p), measured("Total variation", one.variation),
    measured("Smallest discrepancy found", one.finds), measuresOf(data, one)], "numbers");
};

// --- The page -------------------------------------------------------------------------------------
const SEVERITY = ["failed", "error", "underpowered", "passed", "skipped"];
const STATE = "#cases?";
const addressOf = (wanted) => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted)) if (value !== "") parameters.set(name, value);
  const text = parameters.toString();
  return text ? STATE + text : "#cases";
};
// A link to the table that shows those cases alone that are wanted: verdict, sampler, check, filter.
const showLink = (wanted, kind, ...content) => {
  const named = {};
  for (const [name, value] of Object.entries(wanted)) named[name] = value || "(none)";
  return make("a", {class: kind ? "show " + kind : "show", href: addressOf(named)}, content);
};

const verdictHeader = (data, cases) => {
  const {record} = data, counts = record.summary, words = $("ended").textContent;
  const [first] = data.groups;
  if (document.querySelector("h1").textContent === words) $("ended").remove();
  $("brand").append(...[record.suite + " suite", data.date, data.duration].filter(Boolean)
    .map((text) => make("span", null, text)));
  let before = 0;
  const share = (count) => 1000 * count / cases.length;
  const bar = cases.length && shape("svg", {class: "outcome", role: "img", viewBox: "0 0 1000 10",
    preserveAspectRatio: "none", "aria-label": "Shares of the verdicts. " + words},
  shape("desc", null, words), SEVERITY.filter((verdict) => counts[verdict] > 0).map((verdict) => {
    before += counts[verdict];
    return box(verdict, share(before - counts[verdict]), 0, share(counts[verdict]), 10);
  }));
  const tiles = SEVERITY.map((verdict) => {
    const content = [strong(grouped(counts[verdict])), badge(verdict)];
    return counts[verdict] === 0 ? make("li", {class: "none"}, make("div", null, content))
      : make("li", {class: verdict}, showLink({verdict}, "", content));
  });
  const samplers = record.samplers.map((one, i) =>
    [i > 0 && make("br"), code(one.name), " " + one.version + " (" + one.semantics + ")"]);
  const fact = (term, content) => content && make("div", null, entry(term, content));
  const notes = data.coverage.sentences.map((sentence, i) => [record.coverage[i], sentence])
    .filter(([coverage]) => hasGaps(coverage)).slice(0, 4)  // the section has them all
    .map(([coverage, sentence]) => make("p", {class: "note"}, code(coverage.sampler),
      " " + sentence + ". ", make("a", {href: "#coverage"}, "What to declare")));
  $("headline").append(...[historyStrip(data)].filter(Boolean));
  const change = first && first.change && make("div", {class: "change"},
    make("h2", null, "What to change"), make("p", null, first.change, " ",
      make("a", {href: "#" + anchorOfCause(first.name)}, "What says so")));
  $("top").append(...[change, bar, make("ul", {class: "tiles"}, tiles), make("dl", {class: "facts"},
    fact(record.samplers.length === 1 ? "Sampler" : "Samplers", samplers.length ? samplers : "none"),
    fact("Commit", record.commit && code(record.commit.slice(0, 12))),
    fact("Seed", record.seed.value + " (" + record.seed.source + ")"),
    fact("Draws", grouped(record.draws)), fact("Shard", record.shard !== "1/1" && record.shard),
    fact("Selection", record.selection), fact("Options", record.options)), ...notes,
  ...record.samplers.map((one) => (one.notes || []).map((note) =>
    make("p", {class: "note"}, code(one.name), " " + note))).flat()].filter(Boolean));
};

// Where the bugs of engines are told: the names that the table of them uses. Another name that is
// "owner/repository" is where it says; what is neither stays text.
const REPOSITORIES = {"CTranslate2": "OpenNMT/CTranslate2", "EAGLE": "SafeAILab/EAGLE",
  "FlashInfer": "flashinfer-ai/flashinfer", "HF transformers": "huggingface/transformers",
  "JAX": "jax-ml/jax", "MLC-LLM": "mlc-ai/mlc-llm", "Megatron-LM": "NVIDIA/Megatron-LM",
  "NeMo": "NVIDIA/NeMo", "PyTorch": "pytorch/pytorch", "ROCm aiter": "ROCm/aiter",
  "SGLang": "sgl-project/sglang", "TensorRT-LLM": "NVIDIA/TensorRT-LLM",
  "TransformerLens": "TransformerLensOrg/TransformerLens", "Triton": "triton-lang/triton",
  "candle": "huggingface/candle", "chainerrl": "chainer/chainerrl",
  "exllamav2": "turboderp-org/exllamav2", "fish-speech": "fishaudio/fish-speech",
  "gpt4all": "nomic-ai/gpt4all", "llama.cpp": "ggml-org/llama.cpp",
  "lmdeploy": "InternLM/lmdeploy", "minGPT": "karpathy/minGPT", "mini-sglang": "sgl-project/mini-sglang",
  "mlc-llm": "mlc-ai/mlc-llm", "mlx-lm": "ml-explore/mlx-lm", "modular": "modular/modular",
  "nanoGPT": "karpathy/nanoGPT", "ollama": "ollama/ollama",
  "onnxruntime-genai": "microsoft/onnxruntime-genai", "prime-rl": "PrimeIntellect-ai/prime-rl",
  "rten": "robertknight/rten", "sglang-jax": "sgl-project/sglang-jax",
  "tensorrtllm_backend": "triton-inference-server/tensorrtllm_backend",
  "tpu-inference": "vllm-project/tpu-inference", "tt-metal": "tenstorrent/tt-metal",
  "tt-xla": "tenstorrent/tt-xla", "vLLM": "vllm-project/vllm",
  "vllm-ascend": "vllm-project/vllm-ascend", "vllm-gaudi": "vllm-project/vllm-gaudi",
  "xgrammar": "mlc-ai/xgrammar"};
// "vLLM issue #1, PR #2; rten PR #3" with each number as a link. GitHub leads from an issue's address
// to the pull request of that number.
const linked = (source) => source.split(/(?<=; )/).map((part) => {
  const name = Object.keys(REPOSITORIES).find((one) => part.startsWith(one + " "));
  const [, own] = /^([\w.-]+\/[\w.-]+) /.exec(part) || [], repository = REPOSITORIES[name] || own;
  if (!repository) return part;
  return part.split(/(#\d+|@[0-9a-f]{6,40})/).map((piece) => {
    const kind = piece.startsWith("#") ? "/issues/" : piece.startsWith("@") && "/commit/";
    return kind ? make("a", {href: "https://github.com/" + repository + kind + piece.slice(1),
      rel: "noreferrer"}, piece) : piece;
  });
});

// Lists of what a green run shows, and of what it does not show.
const proofParts = ({shown, not_shown}) => shown.length > 0 && make("div", {class: "proof"},
  [["It shows", shown], ["It does not show", not_shown]].map(([title, sentences]) => make("div", null,
    make("h3", null, title), make("ul", null, sentences.map((one) => make("li", null, one))))));

// Red cases that the page shows in full, by cause; all are in the table.
const MOST_CARDS = 100, MOST_OF_CAUSE = 80;
const cardsOf = (groups) => {
  let left = MOST_CARDS;
  return groups.map((group) => {
    const shown = Math.min(left, MOST_OF_CAUSE, group.cases.length);
    left -= shown;
    return shown;
  });
};
const causeCards = (data, cases, shown) => {
  if (data.groups.length === 0) return null;
  const causes = data.groups.filter((group) => group.bug).length, {failed} = data.record.summary;
  const outcomes = new Map();
  for (const one of cases) {
    if (!outcomes.has(one.check)) outcomes.set(one.check, noCounts());
    ++outcomes.get(one.check)[one.verdict];
  }
  const passing = [...outcomes].filter(([, counts]) => counts.failed === 0 && counts.passed > 0)
    .map(([check]) => check);
  const lead = causes > 0 && make("p", {class: "lead"}, plural(failed, "failed case") +
    (failed === 1 ? " has " : " have ") + (causes === 1 ? "one cause" : grouped(causes) + " causes") +
    "." + (causes > 1 ? " The first cause explains most: fix this cause, and run again." : "") +
    (passing.length ? " Checks without a failed case: " + passing.join(", ") + "." : ""));
  return [lead, data.groups.map((group, i) =>
    causeCard(data, group, group.cases.map((place) => cases[place]), shown[i]))];
};
const causeCard = (data, group, members, shown) => {
  const verdict = members[0].verdict, place = anchorOfCause(group.name);
  const checks = [...new Set(members.map((one) => one.check))];
  const named = checks.slice(0, 4).map((check, i) => [i === 0 ? "by check " : ", ", strong(check)]);
  const more = checks.length > 4 && " and " + (checks.length - 4) + " more";
  let example = members[0], best = clearestPicture(example.detail);
  for (const one of members) {
    const other = clearestPicture(one.detail);
    if (other.clarity > best.clarity) [example, best] = [one, other];
  }
  const drawn = best.draw(), seen = seenEntries(example), replay = replayOf(data, example);
  const words = seen.length ? make("div", {class: "seen"}, list(seen)) : null;
  const caption = [example.id + " on ", code(example.sampler),
    example.message && ": " + example.message];
  return make("article", {class: "cause " + verdict, id: place},
    make("header", null,
      make("p", {class: "eyebrow"}, badge(verdict, group.share), group.bug && code(group.bug),
        make("span", null, named, more)),
      make("h3", null, make("a", {class: "anchor", href: "#" + place}, group.sentence)),
      group.reason && make("p", {class: "because"}, group.reason.replace(/\.?$/, "."))),
    drawn ? make("div", {class: "evidence"},
      make("figure", null, drawn, make("figcaption", null, caption)), words)
      : [make("p", {class: "example"}, caption), words && make("div", {class: "evidence words"}, words)],
    group.change && make("div", {class: "change"}, make("h4", null, "What to change"),
      make("p", null, group.change)),
    group.engines.length && make("div", {class: "engines"}, make("h4", null, group.same
      ? "Engines that had this bug" : "Engines whose bugs looked like this"),
    make("ul", null, group.engines.map(([source, wrong]) =>
      make("li", null, make("b", null, linked(source)), " ", make("span", null, wrong))))),
    replay && replayLine(replay),
    make("details", {class: "members"}, make("summary", null,
      members.length === 1 ? "The case" : "All " + grouped(members.length) + " cases"),
    shown > 0 && make("ul", null, members.slice(0, shown).map((one) => member(data, one))),
    shown < members.length && make("p", null, "And " + grouped(members.length - shown) + " more: ",
      showLink({verdict}, "", "all are in the table"), ".")));
};
const member = (data, one) => {
  const place = anchorOfCase(one.id, one.sampler), seen = seenEntries(one);
  const replay = replayOf(data, one);
  return make("li", null, make("details", {class: "case", id: place},
    make("summary", null, badge(one.verdict), make("span", {class: "id"}, one.id,
      data.record.samplers.length > 1 && [" ", code(one.sampler)]),
    make("span", {class: "said"}, one.message)),
    make("div", null, make("p", {class: "message"}, one.message), hintsOf(one.detail.suspects),
      list(seen), one.watch && make("p", null, "Watch: " + one.watch),
      replay && replayLine(replay), picturesOf(one), numbersOf(data, one),
      make("p", {class: "hint"}, make("a", {href: "#" + place}, "Link to this case")))));
};

const watchList = (data, watched) => watched.length === 0 ? null : [
  make("p", {class: "lead"}, data.watch),
  make("ul", null, watched.slice(0, 100).map((one) =>
    make("li", null, code(one.sampler), " " + one.id + ": " + one.watch))),
  watched.length > 100 && make("p", null, "And " + grouped(watched.length - 100) +
    " more, in the table.")];

const hasGaps = (coverage) => coverage.features.some((one) => !one.judged && !one.claim);
const coverageParts = (data) => {
  const {unmet, sentences, what} = data.coverage;
  return [unmet.map((text) => make("p", {class: "note"}, "Required, and missing: " + text)),
    sentences.map((sentence, i) => {
      const coverage = data.record.coverage[i];
      return make("details", {class: "part", open: hasGaps(coverage)},
        make("summary", null, code(coverage.sampler), " ", make("span", null, sentence + ".")),
        coverage.undeclared.length && table(
          "Abilities that the sampler does not declare, and the cases that need each.",
          ["Declare", "#Skipped cases", "#Parts of cases", "Features"],
          coverage.undeclared.map((one) => [code(one.declare), grouped(one.skipped),
            grouped(one.in_part), one.features.join(", ")])),
        table("A feature is judged if cases of it ran, and at least as many ran as were skipped for " +
          "lack of it.", ["Feature", "What", "Outcome", "#Cases that ran", "#Cases"],
        coverage.features.map((one) => [code(one.name), what[one.name], one.judged ? "judged"
          : one.claim ? "not claimed" : strong("not judged"), grouped(one.ran), grouped(one.cases)])));
    })];
};

// Samplers against checks, as a table: a screen reader says row, column and what is in a cell, keys
// reach each cell, and each leads to its cases.
const heatMap = (cases) => {
  const {rows, columns} = tallied(cases);
  if (rows.length === 0) return null;
  const hasRed = (check) =>
    rows.some((row) => row.checks.has(check) && redOf(row.checks.get(check)) > 0);
  const red = columns.filter(hasRed);
  const cell = (row, check) => {
    const counts = row.checks.get(check);
    if (!counts) return make("td");
    const verdict = verdictOf(counts), wanted = {sampler: row.sampler, check};
    if (verdict !== "passed") wanted.verdict = verdict;
    // A link's name is what it says, and for those who hear it all that is counted.
    return make("td", null, showLink(wanted, kindOf(counts),
      make("span", {"aria-hidden": "true"}, redOf(counts) || markOf(counts)),
      make("span", {class: "heard"}, check + " on " + row.sampler + ": " +
        SEVERITY.map((one) => counts[one] + " " + one).join(", "))));
  };
  const shown = columns.slice(0, MOST_SHOWN);
  return [make("p", {class: "lead"}, plural(rows.length, "sampler") + ", " +
    plural(columns.length, "check") + ". " + (red.length === 0 ? "No check is red."
    : "Red " + (red.length === 1 ? "is" : "are") + ": " + red.join(", ") + ".") +
    " Each cell leads to its cases."),
  make("div", {class: "panel"}, make("div", {class: "scroll", tabindex: 0},
    make("table", {class: "heat"}, make("thead", null, make("tr", null, make("td"),
      shown.map((check) => make("th", {scope: "col", class: hasRed(check) && "red"},
        make("span", null, check))))),
    make("tbody", null, rows.slice(0, MOST_SHOWN).map((row) => make("tr", null,
      make("th", {scope: "row"}, code(row.sampler), make("small", null, "as " + row.semantics)),
      shown.map((check) => cell(row, check))))))),
  make("p", {class: "legend"}, ["a number: cases that failed or could not be run", "? too few draws",
    "\u2713 passed", "\u2013 skipped"].map((text) => make("span", null, text)))),
  (rows.length > MOST_SHOWN || columns.length > MOST_SHOWN) && make("p", null,
    "The picture shows the first of " + grouped(rows.length) + " samplers and " +
    grouped(columns.length) + " checks; the table shows all.")];
};

// Earlier runs: a strip of bars at the top of the page, and a table of what changed from one to the
// next.
const historyStrip = (data) => {
  const {runs, earlier} = data.history, STEP = 9, BAR = 6, HEIGHT = 44, LEAST = 5;
  if (earlier === 0) return null;
  const most = Math.max(1, ...runs.map((run) => run.red)), width = STEP * runs.length;
  const words = runs.length + " runs, this one last: " +
    runs.filter((run) => run.verdict === "passed").length + " passed. A bar's height is the number " +
    "of failed cases; this run has " + grouped(runs[runs.length - 1].red) + ".";
  return make("a", {class: "history", href: "#history"},
    shape("svg", {role: "img", viewBox: "0 0 " + width + " " + HEIGHT, width, height: HEIGHT,
      "aria-label": words}, shape("desc", null, words), runs.map((run, i) => {
      const height = LEAST + (HEIGHT - LEAST) * run.red / most;
      return shape("g", null, box(run.verdict, STEP * i, HEIGHT - height, BAR, height),
        shape("title", null, run.name + ": " + grouped(run.red) + " red"));
    })), make("span", null, plural(earlier, "earlier run")));
};
const historyTable = (data, shown) => {
  const {runs, earlier} = data.history;
  if (earlier === 0) return null;
  const changes = (run, isThis) => {
    if (!run.changes) return "";
    const {compared, verdicts, worse, first} = run.changes;
    if (compared === 0) return "nothing to compare with";
    if (verdicts === 0) return "no verdict changed";
    const word = (verdict) => verdict === null ? "absent" : badge(verdict);
    return make("details", null, make("summary", null,
      grouped(verdicts) + " changed, " + grouped(worse) + " for the worse"),
    make("ul", null, first.map((change) => {
      const name = [code(change.id), run.samplers > 1 && [" on ", code(change.sampler)]];
      const place = anchorOfCase(change.id, change.sampler);
      // Where the run's page shows the case in full, if anywhere.
      const isShown = SEVERITY.indexOf(change.head) >= 0 && SEVERITY.indexOf(change.head) < 3 &&
        (isThis ? shown.has(place) : run.page !== "");
      return make("li", null, isShown ? make("a", {href: run.page + "#" + place}, name) : name, ": ",
        word(change.base), " \u2192 ", word(change.head));
    }), verdicts > first.length && make("li", null, "and " + (verdicts - first.length) + " more")));
  };
  const rows = runs.map((run, i) => {
    const isThis = i === runs.length - 1;
    const row = [[run.page ? make("a", {href: run.page}, run.name) : run.name,
      isThis && " (this run)"], badge(run.verdict), code(run.commit.slice(0, 12)), grouped(run.red),
    grouped(run.cases), run.duration, changes(run, isThis)];
    row.kind = isThis && "now";
    return row;
  });
  return make("div", {class: "panel runs"}, table("", ["Run", "Verdict", "Commit", "#Red", "#Cases",
    "#Time", "Against the run before"], rows.reverse()),
  earlier > runs.length - 1 && make("p", null, "The newest " + (runs.length - 1) + " of " +
    grouped(earlier) + " earlier runs."));
};

const limitPanels = (data) => {
  const {error_budget: budget, small_mistakes: mistakes} = data.record, lines = data.unnoticed;
  return [make("div", {class: "panel"}, make("h3", null, "How small a deviation is found"),
    lines.length === 0 ? make("p", null, "No statistical case passed, so this run says " +
      "nothing about the frequencies of tokens.")
      : [table("A smaller deviation than this total variation distance may have passed.",
        ["Sampler", "Check", "#Cases", "#Total variation"], lines.map(([sampler, check, count, least]) =>
          [code(sampler), check, grouped(count), number(least)])),
      mistakes.length && table(data.mistakes,
        ["Mistake", "#Difference", "Case", "#Its draws", "#Needed"], mistakes.map((one) =>
          [one.mistake, number(one.discrepancy), one.id, grouped(one.draws),
            one.needed === 0 ? "more than 10^12" : grouped(one.needed)]))]),
  make("div", {class: "panel"}, make("h3", null, "Error ledger"), make("p", null,
    "A right sampler fails this run with a probability of at most ",
    strong(number(budget.false_alarm_rate)), "."),
  list([entry("Promised", number(budget.false_alarm_rate)), entry("Spent", number(budget.spent)),
    budget.statistical_cases > 0
      ? entry("Shared by", grouped(budget.statistical_cases) + " cases") : []]))];
};

const overview = (data, cases) => {
  const all = [qqPlot(cases), powerOfAll(cases)].filter(Boolean);
  const parts = [figures(all),
    data.conformance.length && [make("h3", null, "Beside other runs"),
      figures([conformancePlot(cases.concat(data.conformance))])],
    data.mutants.length && [make("h3", null, "Self-test of the gate"),
      figures([killMatrix(data.mutants)])],
    data.benchmark.length && [make("h3", null, "Speed"), figures([benchmarkBars(data.benchmark)])]]
    .filter(Boolean);
  return parts.length ? parts : null;
};

// A part for each sampler and filter; the table has those that are too many.
const filterParts = (cases) => {
  const MOST = 400, samplers = new Map();
  const grown = (map, key, value) => {
    if (!map.has(key)) map.set(key, value());
    return map.get(key);
  };
  const group = () => ({counts: noCounts(), draws: 0, finds: null, checks: new Map()});
  const add = (to, one) => {
    ++to.counts[one.verdict];
    to.draws += one.draws;
    if (one.verdict === "passed" && one.finds !== null) to.finds = Math.max(to.finds, one.finds);
  };
  for (const one of cases) {
    const part = grown(grown(samplers, one.sampler, () => new Map()), one.filter, group);
    add(part, one);
    add(grown(part.checks, one.check, group), one);
  }
  const part = (sampler, filter, all) => make("details", {class: "part"},
    make("summary", null, badge(verdictOf(all.counts)), " ", strong(filter || "no filter named"), " ",
      make("span", null, grouped(SEVERITY.reduce((sum, one) => sum + all.counts[one], 0)) + " cases" +
        (all.finds === null ? "" : ", finds a total variation of " + number(all.finds)))),
    table("", ["Check", "#Passed", "#Red", "#Skipped", "#Draws", "#Smallest found"],
      [...all.checks].map(([check, one]) => [check, grouped(one.counts.passed),
        grouped(redOf(one.counts) + one.counts.underpowered), grouped(one.counts.skipped),
        grouped(one.draws), number(one.finds)])),
    make("p", null, showLink({sampler, filter}, "", "Show them in the table")));
  let left = MOST;
  const parts = [...samplers].map(([sampler, filters]) => {
    const shown = [...filters].slice(0, left);
    left -= filters.size;
    return shown.length && [make("h3", null, code(sampler)),
      shown.map(([filter, all]) => part(sampler, filter, all))];
  });
  if (left < 0) parts.push(make("p", null, "And " + grouped(-left) + " more, in the table."));
  return samplers.size ? parts : null;
};

const isRed = (one) => SEVERITY.indexOf(one.verdict) < 3;
const closerLooks = (data, cases) => {
  const looks = Object.keys(data.details).map((place) => cases[place])
    .filter((one) => !isRed(one)).map((one) => [one, picturesOf(one)])
    .filter(([, pictures]) => pictures.length);
  return looks.length === 0 ? null : [make("p", {class: "lead"}, "Some passed cases keep their " +
    "evidence, so that a right sampler's pictures can be compared with a wrong one's."),
  looks.map(([one, pictures]) => make("details", {class: "closer"}, make("summary", null,
    badge(one.verdict), " ", make("span", null, one.id), " ", code(one.sampler)),
  make("p", {class: "message"}, one.message), list(seenEntries(one)), pictures))];
};

const environment = ({record}) => make("div", {class: "panel"},
  list([entry("fairdraw", record.tool.version), entry("Seconds", number(record.seconds)),
    Object.entries(record.environment).map(([name, value]) => entry(name, value))]));

// --- The table of all cases -----------------------------------------------------------------------
// A table of 10^5 rows takes a browser seconds to lay out: it shows a page of rows at a time.
const COLUMNS = [["Verdict", "verdict"], ["Sampler", "sampler"], ["Case", "id", "case"],
  ["Check", "check"], ["Filter", "filter"], ["#Rows", "rows"], ["#Vocab", "vocab"],
  ["#Draws", "draws"], ["#p value", "p"], ["#Variation", "variation"], ["#Finds", "finds"]]
  .map(([title, key, name]) => ({title: title.replace("#", ""), key, name: name || key,
    kind: title.startsWith("#") && "number"}));
const SELECTS = ["verdict", "sampler", "check", "filter"], PAGE = 100;

const caseTable = (data, cases) => {
  const selects = {}, heads = [];
  for (const key of SELECTS) {
    const select = selects[key] = make("select", {id: "f-" + key}, make("option", {value: ""}, "all"));
    // What is chosen is a place in a list: a name may be anything, nothing included.
    [...new Set(cases.map((one) => one[key]))].forEach((name, i) =>
      select.append(make("option", {value: i}, name || "(none)")));
    select.value = "";
  }
  const text = make("input", {id: "f-text", type: "search", placeholder: "case or message"});
  const button = (id, title) => make("button", {type: "button", id}, title);
  const clearing = button("f-clear", "Clear"), previous = button("previous", "Previous");
  const next = button("next", "Next"), body = make("tbody", {id: "rows"});
  const status = make("span", {id: "shown", role: "status"}), pageText = make("span", {id: "page"});
  const state = {sort: 0, down: false, page: 0, only: ""};
  let shown = [], words = null;

  const optionOf = (select) => select.value === "" ? null
    : [...select.options].find((option) => option.value === select.value);
  const chosenNow = () => {
    const wanted = {};
    for (const key of SELECTS) {
      const option = optionOf(selects[key]);
      wanted[key] = option ? option.textContent : "";
    }
    wanted.q = text.value;
    wanted.case = state.only;
    if (state.sort !== 0 || state.down) {
      wanted.sort = (state.down ? "-" : "") + COLUMNS[state.sort].name;
    }
    if (state.page > 0) wanted.page = String(state.page + 1);
    return wanted;
  };
  // The address: #cases?verdict=failed&check=mask&q=text&sort=-draws&page=2
  const keepAddress = () => {
    const address = addressOf(chosenNow()), now = location.hash;
    // An address of another place stays as long as nothing is chosen.
    if (address === "#cases" && !now.startsWith(STATE)) return;
    if (address !== now) history.replaceState(null, "", address);
  };
  const select = () => {
    const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length && !words) {
      words = new Map(cases.map((one) =>
        [one, [one.id, one.message, one.watch || ""].join("\n").toLowerCase()]));
    }
    const chosen = SELECTS.map((key) => [key, optionOf(selects[key])]).filter(([, option]) => option)
      .map(([key, option]) => [key, option.textContent]);
    shown = cases.filter((one) =>
      chosen.every(([key, name]) => (one[key] || "(none)") === name) &&
      (state.only === "" || one.id === state.only) &&
      wanted.every((word) => words.get(one).includes(word)));
    const {key} = COLUMNS[state.sort], sign = state.down ? -1 : 1;
    const keyed = shown.map((one) =>
      [key === "verdict" ? SEVERITY.indexOf(one.verdict) : one[key], one]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return a < b ? -sign : a > b ? sign : 0;
    });
    shown = keyed.map(([, one]) => one);
    draw();
  };
  const details = (one) => {
    const replay = replayOf(data, one);
    return make("tr", {class: "details"}, make("td", {colspan: COLUMNS.length},
      one.message && make("p", {class: "message"}, one.message),
      one.watch && make("p", null, "Watch: " + one.watch), list(measuresOf(data, one), "numbers"),
      replay && replayLine(replay), make("p", {class: "hint"},
        make("a", {href: addressOf({sampler: one.sampler, case: one.id})}, "Link to this case"))));
  };
  const toggle = (head, one) => {
    const row = head.closest("tr"), isOpen = head.getAttribute("aria-expanded") === "true";
    head.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) row.nextElementSibling.remove();
    else row.after(details(one));
  };
  const rowOf = (one) => {
    const head = make("button", {class: "row", type: "button", "aria-expanded": "false"}, one.id);
    head.addEventListener("click", () => toggle(head, one));
    const cells = [badge(one.verdict), code(one.sampler), head, one.check, one.filter,
      grouped(one.rows), grouped(one.vocab), grouped(one.draws), number(one.p),
      number(one.variation), number(one.finds)];
    return make("tr", null, cells.map((cell, i) => make("td", {class: COLUMNS[i].kind}, cell)));
  };
  const draw = () => {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    state.page = within(state.page, 0, pages - 1);
    body.replaceChildren(...shown.slice(state.page * PAGE, (state.page + 1) * PAGE).map(rowOf));
    status.textContent = grouped(shown.length) + " of " + grouped(cases.length) + " cases.";
    pageText.textContent = "Page " + (state.page + 1) + " of " + pages;
    previous.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
    heads.forEach((head, i) => {
      if (i === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  const choose = () => {
    state.page = 0;
    state.only = "";
    select();
    keepAddress();
  };
  const turn = (by) => { state.page += by; draw(); keepAddress(); };
  const clear = () => {
    text.value = "";
    for (const key of SELECTS) selects[key].value = "";
    Object.assign(state, {sort: 0, down: false, page: 0, only: ""});
  };
  COLUMNS.forEach((column, i) => {
    const sort = make("button", {type: "button"}, column.title);
    sort.addEventListener("click", () => {
      state.down = state.sort === i && !state.down;
      state.sort = i;
      state.page = 0;
      select();
      keepAddress();
    });
    heads.push(make("th", {scope: "col", class: column.kind}, sort));
  });
  for (const key of SELECTS) selects[key].addEventListener("change", choose);
  let waiting = 0;
  text.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(choose, 120);
  });
  clearing.addEventListener("click", () => { clear(); select(); keepAddress(); });
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  body.addEventListener("keydown", (event) => {
    const buttons = [...body.querySelectorAll("button.row")];
    const at = buttons.indexOf(document.activeElement);
    const go = (to) => { event.preventDefault(); if (buttons[to]) buttons[to].focus(); };
    if (at < 0) return;
    if (event.key === "ArrowDown") go(at + 1);
    if (event.key === "ArrowUp") go(at - 1);
    if (event.key === "Home") go(0);
    if (event.key === "End") go(buttons.length - 1);
    if (event.key === "PageDown" || event.key === "PageUp") {
      event.preventDefault();
      turn(event.key === "PageDown" ? 1 : -1);
      body.querySelector("button.row").focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      text.focus();
    }
  });
  // Shows what the address asks for.
  const restore = () => {
    clear();
    const parameters = new URLSearchParams(location.hash.slice(STATE.length));
    for (const key of SELECTS) {
      const name = parameters.get(key), box = selects[key];
      if (name === null) continue;
      let option = [...box.options].slice(1).find((one) => one.textContent === name);
      // What this page has no case of is shown as what was asked for, and as no case.
      if (!option) box.append(option = make("option", {value: box.options.length}, name));
      box.value = option.value;
    }
    text.value = parameters.get("q") || "";
    state.only = parameters.get("case") || "";
    const sort = parameters.get("sort") || "";
    const column = COLUMNS.findIndex(({name}) => name === sort.replace(/^-/, ""));
    if (column >= 0) Object.assign(state, {sort: column, down: sort.startsWith("-")});
    state.page = Math.max(0, (Number(parameters.get("page")) || 1) - 1);
    select();
    $("cases").scrollIntoView();
    const first = state.only !== "" && body.querySelector("button.row");
    if (first) {
      toggle(first, shown[state.page * PAGE]);
      first.focus({preventScroll: true});
    }
  };
  select();
  const labelled = (title, control) => make("label", null, title, control);
  const key = (name) => make("kbd", null, name);
  return {restore, content: [make("p", {class: "lead"}, "The p value is Pearson's, which is also " +
    "reported if another test decides. Variation is the observed total variation. Finds is the " +
    "smallest total variation that the case's draws find."),
  make("div", {class: "tools", role: "search"}, labelled("Search", text),
    SELECTS.map((name) => labelled(name[0].toUpperCase() + name.slice(1), selects[name])), clearing),
  make("p", {class: "hint"}, status, " The page's address keeps the choices. Keys: ", key("/"),
    " search, ", key("\u2191"), " ", key("\u2193"), " rows, ", key("Enter"), " details, ", key("PgUp"),
    " ", key("PgDn"), " pages."),
  make("div", {class: "rows", tabindex: 0, role: "region", "aria-label": "Table of all cases"},
    make("table", {class: "cases"}, make("thead", null, make("tr", null, heads)), body)),
  make("p", {class: "pages"}, previous, " ", pageText, " ", next)]};
};

// --- All of it ------------------------------------------------------------------------------------
const $ = (id) => document.getElementById(id);
const drawPage = (data) => {
  const cases = casesOf(data), red = cases.filter(isRed);
  const watched = cases.filter((one) => one.watch), all = caseTable(data, cases);
  const shown = cardsOf(data.groups);
  const places = new Set(data.groups.map((group, i) => group.cases.slice(0, shown[i])
    .map((place) => anchorOfCase(cases[place].id, cases[place].sampler))).flat());
  const isJudged = data.coverage.unmet.length || data.coverage.sentences.length;
  const sections = [
    ["proof", "Conclusions from this run", proofParts(data)],
    ["causes", "What went wrong", causeCards(data, cases, shown), red.length],
    ["watch", "Watch", watchList(data, watched), watched.length],
    ["coverage", "What was judged", isJudged ? coverageParts(data) : null],
    ["checks", "Samplers and checks", heatMap(cases)],
    ["history", "Earlier runs", historyTable(data, places), data.history.earlier],
    ["limits", "What could have gone unnoticed", limitPanels(data)],
    ["overview", "The run as a whole", overview(data, cases)],
    ["cases", "All cases", all.content, cases.length],
    ["filters", "By sampler and filter", filterParts(cases)],
    ["evidence", "A closer look at what passed", closerLooks(data, cases)],
    ["environment", "Where it ran", environment(data)]].filter(([, , content]) => content);
  const item = (place, title, count, ...below) => make("li", null, make("a", {href: "#" + place},
    make("span", null, title), count > 0 && strong(grouped(count))), below);
  verdictHeader(data, cases);
  $("contents").append(make("p", null, "Contents"), make("ol", null,
    sections.map(([id, title, , count]) => item(id, title, count, id === "causes" && make("ol", null,
      data.groups.slice(0, 12).map((group) =>
        item(anchorOfCause(group.name), group.name, group.cases.length)))))));
  $("sections").append(...sections.map(([id, title, content]) =>
    make("section", {id}, make("h2", null, title), content)));
  // What an address leads to.
  const follow = () => {
    if (location.hash.startsWith(STATE)) {
      all.restore();
      return;
    }
    const place = $(location.hash.slice(1));
    if (!place) return;
    for (let outer = place; outer; outer = outer.parentElement) {
      if (outer.tagName === "DETAILS") outer.open = true;
    }
    place.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.show");
    if (link && link.hash === location.hash) follow();
  });
  follow();
};

// For its test, which has no page.
if (typeof module === "object") {
  module.exports = {general, grouped, anchorOf, residuals, pitPlot, growthPlot, qqPlot, powerOfAll,
    dependencePlot, boundaryTable, linked, maskBar, clarityOfMask, killMatrix, conformancePlot, benchmarkBars,
    drawPage};
} else {
  drawPage(JSON.parse($("data").textContent));
}
})();
