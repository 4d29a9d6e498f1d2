// Draws a timeline on a canvas. Events narrower than three pixels are pixels of an image, only wider ones are shapes: a frame
// costs as much as the screen has room for, and a look at each event in view.
"use strict";

const ROW_PX = 19, FOLDED_PX = 7, AXIS_PX = 24, LABEL_PX = 26, CHARACTER_PX = 6.1, NARROW_PX = 3, PAD_PX = 4, PALEST = 0.2;

// The rows of a timeline from the top: lanes of a folded title shrink to their first, hidden ones are left out.
function rowsOf(timeline, folded, hidden) {
  const rows = [];
  let y = 0;
  timeline.lanes.forEach(([title, level], lane) => {
    const thin = folded.has(title);
    if ((thin && level > 0) || ![...timeline.sorts[lane]].some((sort) => !hidden.has(sort))) return;
    const height = thin ? FOLDED_PX : ROW_PX;
    rows.push({ lane, title, level, y, height, thin });
    y += height + (thin ? 3 : 1);
  });
  return rows;
}

// For each lane the row that it is drawn in: its own, or that of the lane above that it is folded into.
function nearestRows(rows, lanes) {
  const result = new Array(lanes).fill(null);
  rows.forEach((row, n) => result.fill(row, row.lane, rows[n + 1]?.lane ?? lanes));
  return result;
}

// Of what fills a share of its place.
function strength(share) {
  return PALEST + (1 - PALEST) * Math.min(share, 1);
}

class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.colours = new Map();
    this.image = document.createElement("canvas");
    this.flat = this.image.getContext("2d");
    // What a frame needs, made once: a frame that leaves garbage behind pays for it in one of the next.
    this.pixelOf = new Uint32Array(256);
    this.wide = new Int32Array(0);
  }

  // Colours of the page as it is now: light or dark.
  forgetColours() {
    this.colours.clear();
  }

  colour(name) {
    if (!this.colours.has(name)) {
      const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
      // As an image has it in memory: red first, opaque.
      const pixel = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
      this.colours.set(name, { value, pixel, on: 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171c" : "#ffffff" });
    }
    return this.colours.get(name);
  }

  paint(scene, width, height) {
    const { context: c, canvas } = this, scale = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = height + "px";
    }
    Object.assign(this, { scene, width, bottom: height - AXIS_PX, perNs: width / (scene.view[1] - scene.view[0]) });
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = this.colour("--page").value;
    c.fillRect(0, 0, width, height);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    this.background();
    this.lanes();
    if (scene.showPath) this.path();
    for (const i of [scene.hovered, scene.pinned]) if (i >= 0) this.arrow(i);
    if (scene.pinned >= 0) this.outline(scene.pinned);
    this.measured();
  }

  x(ns) {
    return (ns - this.scene.view[0]) * this.perNs;
  }

  band(range, colour, opacity) {
    const c = this.context, from = Math.max(this.x(range[0]), 0), to = Math.min(this.x(range[1]), this.width);
    c.globalAlpha = opacity;
    c.fillStyle = this.colour(colour).value;
    if (to >= from) c.fillRect(from, 0, Math.max(to - from, 1), this.bottom);
    c.globalAlpha = 1;
  }

  background() {
    const c = this.context, { timeline, view, marked, rows } = this.scene;
    const outside = timeline.extent[0] < timeline.window[0] || timeline.extent[1] > timeline.window[1];
    if (outside) this.band(timeline.window, "--shade", 0.6);
    if (marked) this.band(marked, "--mark", 0.45);
    const rough = (view[1] - view[0]) / Math.max(this.width / 110, 2), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough);
    const digits = Math.max(0, 6 - Math.floor(Math.log10(step)));
    c.textAlign = "center";
    for (let n = Math.ceil(view[0] / step); n * step <= view[1]; n++) {
      const x = this.x(n * step);
      c.fillStyle = this.colour("--line").value;
      c.fillRect(x, 0, 1, this.bottom);
      c.fillStyle = this.colour("--quiet").value;
      c.fillText(`${((n * step) / 1e6).toFixed(Math.min(digits, 6))} ms`, Math.min(Math.max(x, 30), this.width - 30), this.bottom + 13);
    }
    c.textAlign = "left";
    c.fillStyle = this.colour("--line").value;
    for (const row of rows) if (row.level === 0 && row.y) c.fillRect(0, row.y - 1, this.width, 1);
  }

  // Narrow events are written into an image of one line a row, which is stretched over the rows: their
  // number then costs nothing. Wider ones are drawn on top.
  lanes() {
    const { rows, timeline, colourOf } = this.scene, c = this.context, across = Math.ceil(this.width);
    if (!rows.length) return;
    if (this.cells?.width !== across || this.cells.height !== rows.length) {
      Object.assign(this.image, { width: across, height: rows.length });
      this.cells = this.flat.createImageData(across, rows.length);
      this.pixels = new Uint32Array(this.cells.data.buffer);
      this.cover = new Float32Array(across);
    }
    if (this.wide.length < timeline.start.length) this.wide = new Int32Array(timeline.start.length);
    for (const sort in colourOf) this.pixelOf[sort] = this.colour(colourOf[sort]).pixel;
    this.pixels.fill(0);
    let found = 0;
    rows.forEach((row, n) => { row.first = found; found = row.stop = this.narrow(row, n * across, found); });
    this.flat.putImageData(this.cells, 0, 0);
    c.imageSmoothingEnabled = false;
    rows.forEach((row, n) => c.drawImage(this.image, 0, n, across, 1, 0, row.y, across, row.height));
    for (const row of rows) this.bars(row);
  }

  // Fills the pixels of a row's narrow events, and lists its wide ones behind those found so far. The loop that every frame
  // spends its time in.
  narrow(row, base, found) {
    const { view: [low, high], hidden, timeline } = this.scene, { start, end, category, filled, from } = timeline, { perNs, pixels, pixelOf, wide, cover } = this;
    const narrow = NARROW_PX / perNs, stop = from[row.lane + 1], some = hidden.size > 0;
    cover.fill(0);
    for (let i = timeline.firstAfter(row.lane, low); i < stop && start[i] < high; i++) {
      if (some && hidden.has(category[i])) continue;
      if (end[i] - start[i] >= narrow) { wide[found++] = i; continue; }
      const first = Math.max(Math.floor((start[i] - low) * perNs), 0), last = Math.max(Math.round((end[i] - low) * perNs), first + 1);
      const share = ((end[i] - start[i]) * perNs * filled[i]) / 100 / (last - first);
      for (let cell = first; cell < last; cell++) {
        cover[cell] += share;
        if (!pixels[base + cell]) pixels[base + cell] = pixelOf[category[i]];
      }
    }
    // The strength of a pixel is how much of it is filled: pauses between kernels that are too short to be seen look short.
    for (let cell = 0; cell < cover.length; cell++) {
      if (cover[cell] && cover[cell] < 1) pixels[base + cell] = ((pixels[base + cell] & 0xffffff) | ((255 * strength(cover[cell])) << 24)) >>> 0;
    }
    return found;
  }

  // The wide events of a row: boxes first, then the names of those with room for one.
  bars(row) {
    const c = this.context, { timeline, colourOf } = this.scene, { wide } = this;
    let sort = -1;
    for (let n = row.first; n < row.stop; n++) {
      const i = wide[n], x = this.left(i), to = this.right(i);
      if (timeline.category[i] !== sort) c.fillStyle = this.colour(colourOf[(sort = timeline.category[i])]).value;
      c.globalAlpha = strength(timeline.filled[i] / 100);
      c.fillRect(x, row.y, Math.max(to - x - (to - x > 3 ? 0.5 : 0), 1), row.height);
    }
    c.globalAlpha = 1;
    for (let n = row.first; n < row.stop && !row.thin; n++) {
      const i = wide[n], x = this.left(i), to = this.right(i);
      if (to - x > LABEL_PX && timeline.filled[i] > 50) this.label(i, x, row.y, to - x, colourOf[timeline.category[i]]);
    }
  }

  left(i) {
    return Math.max(this.x(this.scene.timeline.start[i]), -1);
  }

  right(i) {
    return Math.min(this.x(this.scene.timeline.end[i]), this.width + 1);
  }

  label(i, x, y, width, colour) {
    const words = this.scene.timeline.text(i), room = Math.floor((width - 2 * PAD_PX) / CHARACTER_PX);
    this.context.fillStyle = this.colour(colour).on;
    this.context.fillText(words.length > room ? words.slice(0, room - 1) + "…" : words, Math.max(x, 0) + PAD_PX, y + ROW_PX / 2 + 0.5);
  }

  row(lane) {
    return this.scene.rowOf[lane];
  }

  // The critical path as one line along the lower edge of the lanes it runs on.
  path() {
    const c = this.context, { timeline, view } = this.scene;
    let before = -Infinity, latest = -Infinity, begun = false;
    c.beginPath();
    for (const [start, end, lane] of timeline.path) {
      // Of two timelines below each other, the second path begins anew.
      if (start < latest) { begun = false; before = -Infinity; }
      latest = start;
      if (end < view[0] || start > view[1]) continue;
      const row = this.row(lane), to = this.x(end);
      if (!row || to < before + 0.7) continue;
      const from = Math.max(this.x(start), before), y = row.y + row.height - 2;
      if (begun) c.lineTo(from, this.level);
      c[begun ? "lineTo" : "moveTo"](from, y);
      c.lineTo(to, y);
      this.level = y;
      begun = true;
      before = to;
    }
    c.lineJoin = "round";
    for (const [colour, width] of [["--page", 4], ["--path", 2]]) {
      c.strokeStyle = this.colour(colour).value;
      c.lineWidth = width;
      c.stroke();
    }
  }

  box(i) {
    const { timeline } = this.scene, row = this.row(timeline.lane[i]);
    return row && { x: this.x(timeline.start[i]), to: this.x(timeline.end[i]), y: row.y, height: row.height };
  }

  outline(i) {
    const c = this.context, box = this.box(i);
    if (!box) return;
    c.strokeStyle = this.colour("--text").value;
    c.lineWidth = 2;
    c.strokeRect(Math.max(box.x, 0) - 1, box.y, Math.max(Math.min(box.to, this.width) - Math.max(box.x, 0), 1) + 2, box.height);
  }

  // From a launch to its kernel; from the device op that ended a wait to the wait's end.
  arrow(i) {
    const { timeline } = this.scene, other = timeline.link[i] - 1;
    if (other < 0) return;
    const from = this.box(other), to = this.box(i);
    if (!from || !to) return;
    const waited = timeline.start[i] < timeline.end[other] && timeline.start[other] < timeline.end[i];
    const x0 = waited ? from.to : from.x, x1 = waited ? to.to : to.x, c = this.context;
    const y0 = from.y + from.height / 2, y1 = to.y + to.height / 2, bend = Math.max(Math.abs(x1 - x0) / 2, 24);
    for (const [colour, width] of [["--page", 4], ["--text", 1.5]]) {
      c.strokeStyle = c.fillStyle = this.colour(colour).value;
      c.lineWidth = width;
      c.beginPath();
      c.moveTo(x0, y0);
      c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      c.stroke();
    }
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x1 - 8, y1 - 4);
    c.lineTo(x1 - 8, y1 + 4);
    c.fill();
  }

  measured() {
    const { measured } = this.scene, c = this.context;
    if (!measured) return;
    const [from, to] = measured.map((ns) => this.x(ns));
    this.band(measured, "--link", 0.18);
    c.fillStyle = this.colour("--link").value;
    c.fillRect(from, 0, 1, this.bottom);
    c.fillRect(to, 0, 1, this.bottom);
  }
}
