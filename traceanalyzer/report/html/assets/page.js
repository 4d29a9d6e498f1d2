// Tables that sort and search, definitions shown for what has the focus or the pointer.
"use strict";

const tip = document.getElementById("tip");
let explained = null;

function showTip(element) {
  explained = element;
  tip.textContent = element.dataset.def;
  tip.hidden = false;
  element.setAttribute("aria-describedby", "tip");
  placeTip(element);
}

function placeTip(element) {
  const box = element.getBoundingClientRect();
  const below = box.bottom + tip.offsetHeight + 8 < window.innerHeight;
  tip.style.left = Math.max(8, Math.min(box.left, window.innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (below ? box.bottom + 6 : Math.max(4, box.top - tip.offsetHeight - 6)) + "px";
}

function showTipAt(x, y, words) {
  explained = null;
  tip.textContent = words;
  tip.hidden = false;
  const below = y + tip.offsetHeight + 24 < window.innerHeight;
  tip.style.left = Math.max(8, Math.min(x + 12, window.innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (below ? y + 16 : y - tip.offsetHeight - 10) + "px";
}

function hideTip() {
  explained = null;
  tip.hidden = true;
  document.querySelectorAll("[aria-describedby=tip]").forEach((e) => e.removeAttribute("aria-describedby"));
}

function withDefinition(event) {
  const element = event.target.closest && event.target.closest("[data-def]");
  if (element) showTip(element);
}

for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, withDefinition);
document.addEventListener("focusout", hideTip);

// What the focus explains stays: a browser scrolls to what gets the focus, and the page then moves under the pointer.
function leaveTip() {
  const focused = document.activeElement;
  if (explained && focused !== document.body && focused.contains(explained)) placeTip(explained);
  else hideTip();
}

for (const kind of ["pointerout", "scroll"]) document.addEventListener(kind, leaveTip, true);
document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

// A picture in focus: the arrow keys go from mark to mark, and what each says is shown and read out.
document.addEventListener("keydown", (event) => {
  const picture = event.target, way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!way || !picture.classList.contains("picture")) return;
  const marks = Array.from(picture.querySelectorAll("[data-def]"));
  if (!marks.length) return;
  event.preventDefault();
  const at = (Number(picture.dataset.at ?? (way > 0 ? -1 : 0)) + way + marks.length) % marks.length;
  picture.dataset.at = at;
  picture.querySelectorAll(".chosen").forEach((mark) => mark.classList.remove("chosen"));
  marks[at].classList.add("chosen");
  showTip(marks[at]);
  marks[at].removeAttribute("aria-describedby");
  picture.setAttribute("aria-describedby", "tip");
});

function sortValue(cell) {
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
}

// What was not recorded stays at the end in either direction.
function compare(a, b, direction) {
  const known = [a, b].map((v) => (v === "-" || v === "n/a" || v === "" ? 1 : 0));
  if (known[0] || known[1]) return known[0] - known[1];
  return direction * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
}

function sortBy(button) {
  const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
  const column = head.cellIndex, numeric = head.classList.contains("number");
  const before = head.getAttribute("aria-sort");
  const ascending = before === "none" ? !numeric : before === "descending";
  table.querySelectorAll("th[aria-sort]").forEach((th) => th.setAttribute("aria-sort", "none"));
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const rows = Array.from(body.rows, (row) => [sortValue(row.cells[column]), row]);
  rows.sort((a, b) => compare(a[0], b[0], ascending ? 1 : -1));
  body.append(...rows.map((pair) => pair[1]));
}

function search(input) {
  const tabular = input.closest(".tabular"), words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0, all = 0;
  for (const row of tabular.querySelectorAll("tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    found += row.hidden ? 0 : 1;
    all += 1;
  }
  tabular.querySelector(".found").textContent = words.length ? `${found} of ${all} rows` : `${all} rows`;
}

// What is chosen on the page stands in its address, so that a link shows it alike.
function stateOfPage() {
  return new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
}

function keepState(changes) {
  const state = stateOfPage();
  for (const [key, value] of Object.entries(changes)) value ? state.set(key, value) : state.delete(key);
  history.replaceState(null, "", "#" + state);
}

// How a table is sorted and searched.
function keep(inside) {
  const tabular = inside.closest(".tabular"), sorted = tabular.querySelector("th[aria-sort$=ending]");
  keepState({
    table: tabular.querySelector("caption").textContent, find: tabular.querySelector(".search")?.value,
    sort: sorted && `${sorted.cellIndex},${sorted.getAttribute("aria-sort")}`,
  });
}

function restore() {
  const state = stateOfPage();
  const table = state.has("table") && Array.from(document.querySelectorAll(".tabular table")).find((one) => one.caption.textContent === state.get("table"));
  if (!table) return;
  const [column, direction] = (state.get("sort") || "").split(","), head = table.tHead.rows[0].cells[Number(column)];
  const button = direction && head?.querySelector(".sort"), input = table.closest(".tabular").querySelector(".search");
  for (let i = 0; button && i < 2 && head.getAttribute("aria-sort") !== direction; i++) sortBy(button);
  if (input && state.has("find")) { input.value = state.get("find"); search(input); }
  for (let e = table; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  table.scrollIntoView();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest(".sort");
  if (button) { sortBy(button); keep(button); }
});
document.addEventListener("input", (event) => {
  if (event.target.classList.contains("search")) { search(event.target); keep(event.target); }
});

// Of like things next to each other one is a stop of the keyboard, and arrow keys lead from it to the others.
const NEIGHBOURS = "thead tr, .facts, .legend, fieldset.keys, #timeline-lanes";

function neighbours(group) {
  return Array.from(group.querySelectorAll("button, input")).filter((one) => !one.closest("[hidden]"));
}

function oneStop(group, chosen) {
  const all = neighbours(group), stop = all.includes(chosen) ? chosen : all.find((one) => one.tabIndex === 0);
  for (const one of all) one.tabIndex = one === (stop || all[0]) ? 0 : -1;
}

for (const group of document.querySelectorAll(NEIGHBOURS)) oneStop(group, neighbours(group)[0]);
document.addEventListener("focusin", (event) => {
  const group = event.target.closest(NEIGHBOURS);
  if (group) oneStop(group, event.target);
});
document.addEventListener("keydown", (event) => {
  const group = event.target.closest(NEIGHBOURS), way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!group || !way || (group.tagName === "TR" && !/Left|Right/.test(event.key))) return;
  const all = neighbours(group);
  event.preventDefault();
  all[(all.indexOf(event.target) + way + all.length) % all.length].focus();
});

// What can be scrolled gets the focus, where nothing inside does.
const scrolled = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const more = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    if (more && !target.querySelector("a, button")) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll(".scroll").forEach((one) => scrolled.observe(one));

// A link into a folded part opens it.
function unfold() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
}
window.addEventListener("hashchange", () => { unfold(); restore(); });
unfold();
restore();

// Paper is light, and has no folds where the answer and its evidence stand.
let unfolded = [];
window.addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  unfolded = Array.from(document.querySelectorAll("#answer details:not([open]), .evidence:not([open])"));
  for (const details of unfolded) details.open = true;
});
window.addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  for (const details of unfolded) details.open = false;
});
document.documentElement.dataset.ready = Math.round(performance.now());
