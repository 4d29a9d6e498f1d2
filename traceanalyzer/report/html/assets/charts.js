// Draws the page's figures with Plotly when they come into view, in the colours of light, dark or paper.
"use strict";

const FIGURES = JSON.parse(document.getElementById("charts").textContent);
const CONFIG = { responsive: true, displayModeBar: false, doubleClick: "reset" };
const PAPER_WIDTH = 680; // px: an A4 or letter page between its margins
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Every "--name" in a figure is the colour of that name.
function coloured(value) {
  if (typeof value === "string") return value.startsWith("--") ? colourOf(value) : value;
  if (Array.isArray(value)) return value.map(coloured);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v)]));
  return value;
}

function axis(own) {
  const line = colourOf("--line");
  return { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, ...coloured(own) };
}

function layoutOf(own) {
  const text = colourOf("--text");
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", bargap: 0.15, dragmode: false,
    font: { family: "system-ui, sans-serif", size: 12, color: text },
    margin: { l: 60, r: 20, t: 10, b: 45 },
    legend: { orientation: "h", traceorder: "normal", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: colourOf("--panel"), bordercolor: colourOf("--line"), font: { color: text }, align: "left" },
    ...coloured(own), xaxis: axis(own.xaxis || {}), yaxis: axis(own.yaxis || {}),
  };
}

function draw(element, width) {
  const figure = FIGURES[element.dataset.chart];
  const layout = layoutOf(figure.layout);
  if (width) Object.assign(layout, { width, height: element.clientHeight, autosize: false });
  element.dataset.drawn = "yes";
  return Plotly.react(element, coloured(figure.data), layout, CONFIG);
}

// The timeline is drawn by its own script, which puts its way of drawing here.
const DRAWS = {};

function drawOne(element, width) {
  const drawn = (DRAWS[element.dataset.chart] || draw)(element, width);
  // Where Plotly measures text: nothing for a screen reader.
  document.getElementById("js-plotly-tester").setAttribute("aria-hidden", "true");
  return drawn;
}

function redraw(width) {
  document.querySelectorAll("[data-chart]").forEach((element) => (width || element.dataset.drawn) && drawOne(element, width));
}

function drawCharts() {
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || entry.target.dataset.drawn) continue;
      watcher.unobserve(entry.target);
      drawOne(entry.target);
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll("[data-chart]").forEach((element) => watcher.observe(element));
  if (window.startTimeline) window.startTimeline();
  dark.addEventListener("change", () => redraw());
  document.documentElement.dataset.ready = Math.round(performance.now());
}

// Paper is light, has no folds where the answer, its evidence and the definitions stand, and shows every chart.
let unfolded = [];
window.addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  unfolded = Array.from(document.querySelectorAll(":is(#answer, #findings, #definitions) details:not([open])"));
  for (const details of unfolded) details.open = true;
  redraw(PAPER_WIDTH);
});
window.addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  for (const details of unfolded) details.open = false;
  redraw();
});
