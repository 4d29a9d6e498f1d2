"use strict";
// Charts whose horizontal axis can be zoomed: to a stretch that a button names, to one that is dragged over, and by
// + and -. A chart carries its ends, its views and the named places along it.
const LEAST_SHARE = 1e-5;  // of the whole, as narrow as a view can be
const DRAG_PX = 5;  // a shorter drag is a click
const PLACE_PX = 48;  // room that a name above the axis needs

function roundSteps(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((n) => power * n >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
  for (let n = Math.ceil(low / step - 1e-9); n <= high / step + 1e-9; n++) found.push([n * step, (n * step).toFixed(digits)]);
  return found;
}

function drawIn(parent, name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function zoomable(figure) {
  const { ends: [low, high], views, places } = JSON.parse(figure.dataset.zoom);
  const picture = figure.querySelector(".picture"), body = picture.querySelector("svg");
  const top = Number(body.getAttribute("y")), height = Number(body.getAttribute("height"));
  const stretched = Array.from(body.querySelectorAll("svg[viewBox]"), (svg) => [svg, Number(svg.getAttribute("viewBox").split(" ")[2])]);
  const placed = Array.from(body.querySelectorAll("circle, text.label"), (mark) => {
    const key = mark.tagName === "circle" ? "cx" : "x";
    return [mark, key, parseFloat(mark.getAttribute(key)) / 100];
  });
  const still = Array.from(body.querySelectorAll(".grid line, .grid text:not(.axis)")).filter(
    (mark) => mark.getAttribute("text-anchor") === "middle" || (mark.hasAttribute("x1") && mark.getAttribute("x1") === mark.getAttribute("x2")));
  still.forEach((mark) => mark.remove());
  stretched.forEach(([svg]) => svg.setAttribute("overflow", "hidden"));
  const grid = drawIn(body.querySelector(".grid") || body, "g", {}), names = drawIn(body, "g", { class: "axis" });
  const brush = drawIn(body, "rect", { y: 0, height, visibility: "hidden", style: "fill:var(--link);fill-opacity:.18;pointer-events:none" });
  const buttons = new Map();
  let from = low, to = high;

  function across(value) { return `${(100 * (value - from)) / (to - from)}%`; }

  function show(a, b) {
    const least = LEAST_SHARE * (high - low), middle = (a + b) / 2, half = Math.max(b - a, least) / 2;
    from = Math.max(low, middle - half);
    to = Math.min(high, middle + half);
    const begin = (from - low) / (high - low), share = (to - from) / (high - low);
    for (const [svg, side] of stretched) svg.setAttribute("viewBox", `${begin * side} 0 ${share * side} 1000`);
    for (const [mark, key, at] of placed) {
      const now = (at - begin) / share;
      mark.setAttribute(key, `${100 * now}%`);
      mark.setAttribute("visibility", now < 0 || now > 1 ? "hidden" : "visible");
    }
    drawAxis();
    for (const [button, view] of buttons) button.setAttribute("aria-pressed", String(view[1] === from && view[2] === to));
  }

  function drawAxis() {
    const width = picture.getBoundingClientRect().width || 1000;
    grid.replaceChildren();
    names.replaceChildren();
    for (const [value, text] of roundSteps(from, to, width < 500 ? 3 : 6)) {
      drawIn(grid, "line", { x1: across(value), x2: across(value), y1: 0, y2: height, style: "stroke:var(--line)" });
      drawIn(grid, "text", { x: across(value), y: height + 15, "text-anchor": "middle" }, text);
    }
    let free = -Infinity;
    for (const [value, text] of places) {
      const px = ((value - from) / (to - from)) * width;
      if (value < from || value >= to || px < free || px > width - PLACE_PX) continue;
      free = px + PLACE_PX;
      drawIn(names, "line", { x1: across(value), x2: across(value), y1: 0, y2: height, style: "stroke:var(--quiet);stroke-dasharray:2 4" });
      drawIn(names, "text", { x: across(value), y: -2, style: "fill:var(--quiet)" }, text);
    }
  }

  function zoomed(factor) {
    const middle = (from + to) / 2, half = ((to - from) / 2) * factor;
    show(middle - half, middle + half);
  }

  function moved(share) {
    const by = Math.min(Math.max(share * (to - from), low - from), high - to);
    show(from + by, to + by);
  }

  const tools = document.createElement("div");
  tools.className = "tools";
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", `Zoom of ${figure.querySelector("h3").textContent}`);
  const actions = [["+", "zoom in", () => zoomed(0.5)], ["-", "zoom out", () => zoomed(2)],
    ["←", "earlier", () => moved(-0.5)], ["→", "later", () => moved(0.5)]];
  for (const view of views) addButton(view[0], view[0], () => show(view[1], view[2]), view);
  for (const [text, title, action] of actions) addButton(text, title, action);
  const hint = document.createElement("span");
  hint.className = "quiet";
  hint.textContent = "or drag over the chart";
  tools.append(hint);
  picture.before(tools);

  function addButton(text, title, action, view) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", title);
    button.addEventListener("click", action);
    tools.append(button);
    if (view) buttons.set(button, view);
  }

  function valueAt(event) {
    const box = picture.getBoundingClientRect();
    const share = box.width ? (event.clientX - box.left) / box.width : 0;
    return from + Math.min(Math.max(share, 0), 1) * (to - from);
  }

  let begun = null;
  picture.style.touchAction = "pan-y";
  picture.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    begun = [event.clientX, valueAt(event)];
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!begun) return;
    const [a, b] = [begun[1], valueAt(event)].sort((x, y) => x - y);
    brush.setAttribute("x", across(a));
    brush.setAttribute("width", `${(100 * (b - a)) / (to - from)}%`);
    brush.setAttribute("visibility", "visible");
  });
  const finish = (event) => {
    const start = begun;
    begun = null;
    brush.setAttribute("visibility", "hidden");
    if (!start || event.type === "pointercancel" || Math.abs(event.clientX - start[0]) < DRAG_PX) return;
    show(...[start[1], valueAt(event)].sort((x, y) => x - y));
  };
  picture.addEventListener("pointerup", finish);
  picture.addEventListener("pointercancel", finish);
  picture.addEventListener("dblclick", () => show(low, high));
  picture.addEventListener("keydown", (event) => {
    const action = { "+": () => zoomed(0.5), "-": () => zoomed(2), 0: () => show(low, high) }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  new ResizeObserver(drawAxis).observe(figure);
  show(views[0][1], views[0][2]);
}

document.querySelectorAll("figure[data-zoom]").forEach(zoomable);
