// One step's timeline: bars by lane, what is too small to see left to the zoom, links from findings lead here.
"use strict";

(function () {
  const source = document.getElementById("timeline-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const plot = document.getElementById("timeline-plot");
  const status = document.getElementById("timeline-status");
  const body = document.querySelector("#timeline-table tbody");
  const NS_PER_MS = 1e6, MIN_RANGE_NS = 200, LABEL_PX = 60, LISTED = 25, LANE_PX = 20, EDGES_PX = 60;
  const MARGIN_PX = 20, TITLES_PX = 170, TITLES_SHARE = 0.3, CHARACTER_PX = 7;
  const hidden = new Set();
  let view = data.first.slice(), marked = null, found = -1, paper = 0;

  function whole() {
    return paper || plot.clientWidth || 1000;
  }

  function titles() {
    return Math.min(TITLES_PX, whole() * TITLES_SHARE);
  }

  function width() {
    return whole() - titles() - MARGIN_PX;
  }

  // Rows in view; of those of a colour that fall on the same pixel of a lane only the first.
  function visible() {
    const [from, to] = view, pixel = (to - from) / width(), reached = new Map(), rows = [];
    for (let i = 0; i < data.start.length; i++) {
      const start = data.start[i], end = start + data.length[i];
      if (end < from || start > to || hidden.has(data.category[i])) continue;
      const key = data.lane[i] * 32 + data.category[i];
      if (end <= (reached.get(key) ?? -Infinity) + pixel / 2) continue;
      reached.set(key, end);
      rows.push(i);
    }
    return rows;
  }

  function text(i) {
    return data.names[data.name[i]] || "";
  }

  function escaped(words) {
    return words.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function inView(i) {
    return [Math.max(data.start[i], view[0]), Math.min(data.start[i] + data.length[i], view[1])];
  }

  function label(i) {
    const room = ((inView(i)[1] - inView(i)[0]) / (view[1] - view[0])) * width();
    return room > LABEL_PX ? escaped(text(i).slice(0, Math.floor(room / CHARACTER_PX))) : "";
  }

  function hover(i) {
    const told = data.told[i] >= 0 ? "<br>" + escaped(data.detail[data.told[i]]) : "";
    return `<b>${escaped(text(i))}</b><br>${shown(data.length[i])} from ${ms(data.start[i])} ms${told}`;
  }

  function shown(ns) {
    return ns < 1e3 ? `${ns} ns` : ns < 1e6 ? `${(ns / 1e3).toPrecision(3)} us` : `${(ns / 1e6).toPrecision(4)} ms`;
  }

  function ms(ns) {
    return (ns / NS_PER_MS).toFixed(4);
  }

  function traces() {
    const by = new Map();
    for (const i of visible()) {
      if (!by.has(data.category[i])) by.set(data.category[i], []);
      by.get(data.category[i]).push(i);
    }
    return Array.from(by, ([code, rows]) => ({
      type: "bar", orientation: "h", width: 0.86, name: data.categories[code][0],
      base: rows.map((i) => inView(i)[0] / NS_PER_MS), x: rows.map((i) => (inView(i)[1] - inView(i)[0]) / NS_PER_MS),
      y: rows.map((i) => data.lane[i]), text: rows.map(label), textposition: "inside", insidetextanchor: "start",
      textangle: 0, constraintext: "none", hovertext: rows.map(hover), hovertemplate: "%{hovertext}<extra></extra>",
      marker: { color: colourOf(data.categories[code][1]), line: { width: 0 } },
    }));
  }

  function box(range, colour, opacity, layer) {
    const edges = { x0: range[0] / NS_PER_MS, x1: range[1] / NS_PER_MS, yref: "paper", y0: 0, y1: 1 };
    return { type: "rect", ...edges, fillcolor: colourOf(colour), opacity, layer, line: { width: 1, color: colourOf(colour) } };
  }

  function layout() {
    const firsts = data.lanes.map((lane, i) => [lane, i]).filter(([lane]) => lane[1] === 0);
    const outside = data.extent[0] < data.window[0] || data.extent[1] > data.window[1];
    const shapes = outside ? [box(data.window, "--shade", 0.6, "below")] : [];
    if (marked) shapes.push(box(marked, "--mark", 0.5, "below"));
    const own = {
      barmode: "overlay", dragmode: "zoom", hovermode: "closest", shapes, showlegend: false, margin: { l: titles(), r: MARGIN_PX, t: 10, b: 45 },
      xaxis: { range: view.map((ns) => ns / NS_PER_MS), title: { text: "ms since the step's start" } },
      yaxis: {
        range: [data.lanes.length - 0.4, -0.6], fixedrange: true, tickvals: firsts.map((pair) => pair[1]), automargin: false,
        ticktext: firsts.map(([lane]) => title(lane[0])), showgrid: false,
      },
    };
    const made = layoutOf(own);
    if (paper) Object.assign(made, { width: paper, height: plot.clientHeight, autosize: false });
    return made;
  }

  function title(words) {
    const room = Math.floor(titles() / CHARACTER_PX);
    return escaped(words.length > room ? words.slice(0, room - 1) + "…" : words);
  }

  function list() {
    const rows = visible().sort((a, b) => data.length[b] - data.length[a]).slice(0, LISTED);
    body.replaceChildren(...rows.map((i) => {
      const row = document.createElement("tr");
      const told = data.told[i] >= 0 ? data.detail[data.told[i]] : "";
      const what = data.categories[data.category[i]][0];
      const cells = [text(i), data.lanes[data.lane[i]][0], what, ms(data.start[i]), (data.length[i] / 1e3).toPrecision(4), told];
      for (const words of cells) row.insertCell().textContent = words;
      return row;
    }));
  }

  function draw(_, onPaper) {
    paper = onPaper || 0;
    list();
    const drawn = Plotly.react(plot, traces(), layout(), CONFIG);
    if (!plot.dataset.drawn) {
      listen();
      // The plot's label and the table of events stand for the drawing.
      plot.firstElementChild.setAttribute("aria-hidden", "true");
    }
    plot.dataset.drawn = "yes";
    return drawn;
  }

  function listen() {
    plot.on("plotly_relayout", zoomed);
    plot.on("plotly_doubleclick", () => { show(...data.extent); return false; });
  }

  function show(from, to) {
    const [low, high] = data.extent;
    const length = Math.min(Math.max(to - from, MIN_RANGE_NS), high - low);
    const start = Math.min(Math.max((from + to - length) / 2, low), high - length);
    view = [start, start + length];
    draw();
    status.textContent = `In view: ${ms(view[0])} to ${ms(view[1])} ms.`;
  }

  function mark(from, to) {
    const margin = Math.max(to - from, MIN_RANGE_NS);
    marked = [from, to];
    show(from - margin, to + margin);
    status.textContent = `Marked: ${ms(from)} to ${ms(to)} ms (${shown(to - from)}).`;
  }

  function move(way) {
    const [from, to] = view, quarter = (to - from) / 4;
    if (way === "in") show(from + quarter, to - quarter);
    if (way === "out") show(from - 2 * quarter, to + 2 * quarter);
    if (way === "earlier") show(from - quarter, to - quarter);
    if (way === "later") show(from + quarter, to + quarter);
    if (way === "all") { marked = null; show(...data.extent); }
    if (way === "next") next();
  }

  function next() {
    const words = document.getElementById("timeline-find").value.toLowerCase();
    const count = data.start.length;
    for (let step = 1; words && step <= count; step++) {
      const i = (found + step + count) % count;
      if (!text(i).toLowerCase().includes(words)) continue;
      found = i;
      mark(data.start[i], data.start[i] + data.length[i]);
      status.textContent = `${text(i)}, ${shown(data.length[i])}. ` + status.textContent;
      return;
    }
    status.textContent = words ? `No event in the timeline is named "${words}".` : "Type a part of a name to find.";
  }

  function goToAddress() {
    const place = /^#at=(-?\d+)-(-?\d+)$/.exec(location.hash);
    if (!place) return;
    document.getElementById("timeline").scrollIntoView();
    plot.focus({ preventScroll: true });
    mark(Number(place[1]), Number(place[2]));
  }

  function zoomed(change) {
    const from = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0], to = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    if (from !== undefined) show(from * NS_PER_MS, to * NS_PER_MS);
    else if (change["xaxis.autorange"]) show(...data.extent);
  }

  const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", Home: "all", 0: "all" };

  plot.style.height = EDGES_PX + LANE_PX * data.lanes.length + "px";
  window.startTimeline = function () {
    DRAWS.timeline = draw;
    plot.addEventListener("keydown", (event) => {
      if (event.target !== plot || !KEYS[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      move(KEYS[event.key]);
    });
    document.querySelectorAll("[data-move]").forEach((button) => button.addEventListener("click", () => move(button.dataset.move)));
    document.querySelectorAll("[data-category]").forEach((box) => box.addEventListener("change", () => {
      box.checked ? hidden.delete(Number(box.dataset.category)) : hidden.add(Number(box.dataset.category));
      draw();
    }));
    document.getElementById("timeline-find").addEventListener("keydown", (event) => event.key === "Enter" && next());
    document.addEventListener("click", (event) => {
      // A second click on the same link leads there again.
      const link = event.target.closest("a[href^='#at=']");
      if (link && link.getAttribute("href") === location.hash) goToAddress();
    });
    window.addEventListener("hashchange", goToAddress);
    goToAddress();
  };
})();
