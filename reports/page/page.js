// The script of index.html: filters, sorts and pages the table of all cases, keeps what was chosen in
// the page's address, opens what an address leads to, and copies replay lines. It loads nothing, and
// puts text into the page as text (textContent), never as markup.
"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const copyable = (button, text) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
};
for (const replay of document.querySelectorAll(".replay")) {
  copyable(replay.querySelector(".copy"), replay.querySelector("code").textContent);
}
const data = JSON.parse($("data").textContent);
const VERDICT = 0, SAMPLER = 1, ID = 2, CHECK = 3, FILTER = 4, ROWS = 5, REPLAY = 11,
  MESSAGE = 12, WATCH = 13, MEASURES = 14, PAGE = 100;
const names = {[VERDICT]: data.verdicts, [SAMPLER]: data.samplers, [CHECK]: data.checks,
  [FILTER]: data.filters};
const severity = {failed: 0, error: 1, underpowered: 2, passed: 3, skipped: 4};
const selects = {verdict: VERDICT, sampler: SAMPLER, check: CHECK, filter: FILTER};
for (const [id, column] of Object.entries(selects)) {
  const present = new Set(data.cases.map((one) => one[column]));
  names[column].forEach((name, index) => {
    if (!present.has(index)) return;
    const option = make("option", name || "(none)");
    option.value = String(index);
    $("f-" + id).append(option);
  });
}
const state = {sort: VERDICT, down: false, page: 0, only: ""};
const columns = [...document.querySelectorAll("[data-column]")].map((head) => head.dataset.name);
let shown = [];
// --- The address: #cases?verdict=failed&check=mask&q=text&sort=-draws&page=2 ---
const STATE = "#cases?";
const addressOf = (wanted) => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted)) if (value !== "") parameters.set(name, value);
  const text = parameters.toString();
  return text ? STATE + text : "#cases";
};
const chosenNow = () => {
  const wanted = {};
  for (const id of Object.keys(selects)) {
    const select = $("f-" + id);
    wanted[id] = select.value === "" ? "" : select.selectedOptions[0].textContent;
  }
  wanted.q = $("f-text").value;
  wanted.case = state.only;
  if (state.sort !== VERDICT || state.down) wanted.sort = (state.down ? "-" : "") + columns[state.sort];
  if (state.page > 0) wanted.page = String(state.page + 1);
  return wanted;
};
const keepAddress = () => {
  const address = addressOf(chosenNow());
  const now = location.hash;
  // An address of another place stays as long as nothing is chosen.
  if (address === "#cases" && !now.startsWith(STATE)) return;
  if (address !== now) history.replaceState(null, "", address);
};
const words = (one) => [one[ID], one[MESSAGE], one[WATCH] || ""].join("\n").toLowerCase();
let index = null;
const select = () => {
  const wanted = $("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length && !index) index = new Map(data.cases.map((one) => [one, words(one)]));
  const chosen = Object.entries(selects).filter(([id]) => $("f-" + id).value !== "")
    .map(([id, column]) => [column, Number($("f-" + id).value)]);
  shown = data.cases.filter((one) => chosen.every(([column, value]) => one[column] === value) &&
    (state.only === "" || one[ID] === state.only) &&
    wanted.every((word) => index.get(one).includes(word)));
  if (state.sort >= 0) {
    const column = state.sort, sign = state.down ? -1 : 1;
    const key = column === VERDICT ? (one) => severity[data.verdicts[one[VERDICT]]]
      : names[column] ? (one) => names[column][one[column]] : (one) => one[column];
    const keyed = shown.map((one) => [key(one), one]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return a < b ? -sign : a > b ? sign : 0;
    });
    shown = keyed.map(([, one]) => one);
  }
  draw();
};
const choose = () => {
  state.page = 0;
  state.only = "";
  select();
  keepAddress();
};
const number = (value) => value === null ? "-" : value.toLocaleString("en-US",
  {maximumSignificantDigits: 21, useGrouping: Number.isInteger(value)});
const compact = (value) => value === null ? "-"
  : value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential() : String(value);
const replayOf = (one) => data.replays[one[REPLAY]].map((part) =>
  part === 0 ? one[ID] : part === 1 ? data.samplers[one[SAMPLER]] : part).join("");
const details = (one) => {
  const row = make("tr", undefined, "details");
  const cell = make("td");
  cell.colSpan = 11;
  if (one[MESSAGE]) cell.append(make("p", one[MESSAGE], "message"));
  if (one[WATCH]) cell.append(make("p", "Watch: " + one[WATCH]));
  const measures = one[MEASURES] || [];
  if (measures.length) {
    const list = make("dl", undefined, "numbers");
    for (let i = 0; i < measures.length; i += 2) {
      list.append(make("dt", data.measures[measures[i]]), make("dd", compact(measures[i + 1])));
    }
    cell.append(list);
  }
  const replay = replayOf(one);
  if (replay) {
    const line = make("div", undefined, "replay"), pre = make("pre"), button = make("button", "Copy");
    pre.tabIndex = 0;
    pre.append(make("code", replay));
    button.type = "button";
    button.className = "copy";
    copyable(button, replay);
    line.append(pre, button);
    cell.append(line);
  }
  const link = make("a", "Link to this case");
  link.href = addressOf({sampler: data.samplers[one[SAMPLER]], case: one[ID]});
  const hint = make("p", undefined, "hint");
  hint.append(link);
  cell.append(hint);
  row.append(cell);
  return row;
};
const toggle = (button, one) => {
  const row = button.closest("tr"), open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) row.nextElementSibling.remove(); else row.after(details(one));
};
const draw = () => {
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  state.page = Math.min(Math.max(state.page, 0), pages - 1);
  const first = state.page * PAGE;
  const rows = shown.slice(first, first + PAGE).map((one) => {
    const row = make("tr"), name = data.verdicts[one[VERDICT]];
    const cell = (content, kind) => {
      const td = make("td", undefined, kind);
      td.append(content);
      row.append(td);
    };
    cell(make("span", name, "verdict " + name));
    cell(make("code", data.samplers[one[SAMPLER]]));
    const button = make("button", one[ID], "row");
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => toggle(button, one));
    cell(button);
    cell(data.checks[one[CHECK]]);
    cell(data.filters[one[FILTER]]);
    for (let i = ROWS; i < REPLAY; ++i) {
      cell(i < ROWS + 3 ? number(one[i]) : compact(one[i]), "number");
    }
    return row;
  });
  $("rows").replaceChildren(...rows);
  $("shown").textContent = shown.length.toLocaleString("en-US") + " of " +
    data.cases.length.toLocaleString("en-US") + " cases.";
  $("page").textContent = "Page " + (state.page + 1) + " of " + pages;
  $("previous").disabled = state.page === 0;
  $("next").disabled = state.page === pages - 1;
  for (const head of document.querySelectorAll("[data-column]")) {
    const on = Number(head.dataset.column) === state.sort;
    const th = head.parentElement;
    if (on) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
};
const turn = (by) => { state.page += by; draw(); keepAddress(); };
for (const head of document.querySelectorAll("[data-column]")) {
  head.addEventListener("click", () => {
    const column = Number(head.dataset.column);
    state.down = state.sort === column && !state.down;
    state.sort = column;
    state.page = 0;
    select();
    keepAddress();
  });
}
for (const id of Object.keys(selects)) $("f-" + id).addEventListener("change", choose);
let waiting = 0;
$("f-text").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(choose, 120);
});
const clear = () => {
  $("f-text").value = "";
  for (const id of Object.keys(selects)) $("f-" + id).value = "";
  Object.assign(state, {sort: VERDICT, down: false, page: 0, only: ""});
};
$("f-clear").addEventListener("click", () => { clear(); select(); keepAddress(); });
$("previous").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));
// Links to the table say in their address what they show, so that they can be copied.
for (const link of document.querySelectorAll("a.show")) {
  const wanted = {};
  for (const [id, column] of Object.entries(selects)) {
    if (link.dataset[id] !== undefined) wanted[id] = link.dataset[id] || "(none)";
  }
  link.href = addressOf(wanted);
  link.addEventListener("click", () => { if (link.hash === location.hash) follow(); });
}
$("rows").addEventListener("keydown", (event) => {
  const buttons = [...document.querySelectorAll("button.row")];
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
    document.querySelector("button.row").focus();
  }
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    $("f-text").focus();
  }
});
// --- What an address leads to ---
const restore = () => {
  clear();
  const parameters = new URLSearchParams(location.hash.slice(STATE.length));
  for (const [id, column] of Object.entries(selects)) {
    const name = parameters.get(id);
    if (name === null) continue;
    // What this page has no case of is shown as what was asked for, and as no case.
    const value = String(names[column].indexOf(name === "(none)" ? "" : name));
    const select = $("f-" + id);
    select.value = value;
    if (select.value !== value) {
      const option = make("option", name);
      option.value = value;
      select.append(option);
      select.value = value;
    }
  }
  $("f-text").value = parameters.get("q") || "";
  state.only = parameters.get("case") || "";
  const sort = parameters.get("sort") || "", column = columns.indexOf(sort.replace(/^-/, ""));
  if (column >= 0) Object.assign(state, {sort: column, down: sort.startsWith("-")});
  state.page = Math.max(0, (Number(parameters.get("page")) || 1) - 1);
  select();
  $("cases").scrollIntoView();
  const button = state.only !== "" && document.querySelector("button.row");
  if (button) {
    toggle(button, shown[state.page * PAGE]);
    button.focus({preventScroll: true});
  }
};
const follow = () => {
  if (location.hash.startsWith(STATE)) return restore();
  const place = $(location.hash.slice(1));
  if (!place) return;
  for (let outer = place; outer; outer = outer.parentElement) {
    if (outer.tagName === "DETAILS") outer.open = true;
  }
  place.scrollIntoView();
};
addEventListener("hashchange", follow);
$("table").hidden = false;
select();
follow();
})();
