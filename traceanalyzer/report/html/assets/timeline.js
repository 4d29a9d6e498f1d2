// The timeline that is shown: pointer and keys, what is pinned and measured, links from findings.
"use strict";

(function () {
  const source = document.getElementById("timeline-data");
  if (!source) return;
  const timelines = JSON.parse(source.textContent).map((raw) => new Timeline(raw));
  const byId = (name) => document.getElementById("timeline-" + name);
  const plot = byId("plot"), status = byId("status"), lanes = byId("lanes"), pinned = byId("pinned");
  const canvas = plot.appendChild(document.createElement("canvas"));
  const painter = new Painter(canvas), boxes = Array.from(document.querySelectorAll("[data-category]"));
  const labels = Object.fromEntries(boxes.map((box) => [box.dataset.category, box.parentElement.innerText.trim()]));
  const MIN_RANGE_NS = 200, LISTED = 25, NEAR_PX = 3, DRAG_PX = 4, WHEEL = 0.0015, SETTLED_MS = 120;
  const scene = {
    timeline: timelines[0], view: timelines[0].first.slice(), hidden: new Set(), folded: new Set(), rows: [], showPath: true,
    marked: null, measured: null, pinned: -1, hovered: -1, found: -1,
    colourOf: Object.fromEntries(boxes.map((box) => [box.dataset.category, box.dataset.colour])),
  };
  let asked = false, settled = 0, moved = "", width = plot.clientWidth, kept = "";
  const buttons = new Map();
  window.shownTimeline = scene;

  // Drawing, at most once a frame.
  function draw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; paint(); });
  }

  function paint() {
    const last = scene.rows[scene.rows.length - 1];
    const began = performance.now();
    painter.paint(scene, width || 800, (last ? last.y + last.height : 0) + AXIS_PX);
    scene.painted = performance.now() - began;
    clearTimeout(settled);
    settled = setTimeout(stands, SETTLED_MS);
  }

  function stands() {
    if (moved) status.textContent = moved;
    moved = "";
    list();
    const now = shownNow();
    if (JSON.stringify(now) !== kept) keepState({ ...now, at: "" });
    kept = JSON.stringify(now);
  }

  // What of the timeline stands in the page's address; what is as it was at first does not.
  function shownNow() {
    const t = scene.timeline, view = scene.view.map(Math.round);
    return {
      show: timelines.indexOf(t) || "", view: String(view) === String(t.first) ? "" : String(view),
      pin: scene.pinned < 0 ? "" : String(scene.pinned), span: scene.measured ? String(scene.measured.map(Math.round)) : "",
      hide: String([...scene.hidden]),
    };
  }

  function say(words) {
    moved = "";
    status.textContent = words;
  }

  function element(name, words, properties) {
    return Object.assign(document.createElement(name), { textContent: words }, properties);
  }

  function arrange() {
    scene.rows = rowsOf(scene.timeline, scene.folded, scene.hidden);
    scene.rowOf = nearestRows(scene.rows, scene.timeline.lanes.length);
    const first = scene.rows.filter((row) => row.level === 0), titles = first.map((row) => titleOf(row));
    // Those that stay are left where they are: one of them may have the focus.
    for (const old of Array.from(lanes.children)) if (!titles.includes(old)) old.remove();
    titles.forEach((button, n) => lanes.children[n] === button || lanes.insertBefore(button, lanes.children[n] || null));
    for (const box of boxes) box.parentElement.hidden = !scene.timeline.sorts.some((sorts) => sorts.has(Number(box.dataset.category)));
    for (const group of [lanes, boxes[0]?.closest("fieldset")]) if (group) oneStop(group);
    cutTitles();
    byId("shown").textContent = scene.timeline.shown;
    draw();
  }

  // The title of a lane, which folds it.
  function titleOf(row) {
    const key = `${timelines.indexOf(scene.timeline)} ${row.lane}`;
    const button = buttons.get(key) || element("button", row.title, { type: "button", onclick: () => fold(row.title) });
    buttons.set(key, button);
    button.dataset.lane = row.title;
    button.style.top = row.y + "px";
    button.className = row.thin ? "thin" : "";
    button.setAttribute("aria-expanded", String(!row.thin));
    return button;
  }

  function fold(title) {
    scene.folded.has(title) ? scene.folded.delete(title) : scene.folded.add(title);
    arrange();
  }

  // Titles that end in an ellipsis are shown in full to pointer, finger and keyboard.
  function cutTitles() {
    for (const button of lanes.children) {
      if (button.scrollWidth > button.clientWidth) button.dataset.def = button.dataset.lane;
      else delete button.dataset.def;
    }
  }

  function list() {
    const body = document.querySelector("#timeline-table tbody"), t = scene.timeline;
    if (!body.closest("details").open) return;
    body.replaceChildren(...t.longest(scene.view, scene.hidden, LISTED).map((i) => {
      const row = document.createElement("tr"), detail = t.detail[t.told[i] - 1] || "";
      const cells = [t.text(i), t.lanes[t.lane[i]][0], labels[t.category[i]], inMs(t.start[i]), (t.length[i] / 1e3).toPrecision(4), detail];
      for (const words of cells) row.insertCell().textContent = words;
      return row;
    }));
  }

  function show(from, to) {
    const [low, high] = scene.timeline.extent;
    const length = Math.min(Math.max(to - from, MIN_RANGE_NS), high - low);
    const start = Math.min(Math.max((from + to - length) / 2, low), high - length);
    scene.view = [start, start + length];
    // Said once the view stands still: not sixty times a second.
    moved = `In view: ${inMs(scene.view[0])} to ${inMs(scene.view[1])} ms.`;
    draw();
  }

  function zoom(factor, around) {
    const [from, to] = scene.view, at = around ?? (from + to) / 2;
    const length = Math.max((to - from) * factor, MIN_RANGE_NS), share = (at - from) / (to - from);
    show(at - share * length, at + (1 - share) * length);
  }

  function pan(share) {
    const [from, to] = scene.view, by = share * (to - from), [low, high] = scene.timeline.extent;
    const moved = Math.min(Math.max(by, low - from), high - to);
    show(from + moved, to + moved);
  }

  function mark(from, to) {
    const margin = Math.max(to - from, MIN_RANGE_NS);
    scene.marked = [from, to];
    show(from - margin, to + margin);
    say(`Marked: ${inMs(from)} to ${inMs(to)} ms (${lengthOf(to - from)}).`);
  }

  // Pinning an event, and what is known of it.
  function describe(i) {
    const t = scene.timeline;
    const part = t.filled[i] < 100 ? ` (${t.filled[i]} % of it)` : "";
    return `${t.text(i)}, ${labels[t.category[i]]}, ${lengthOf(t.length[i])}${part} from ${inMs(t.start[i])} ms`;
  }

  function pin(i) {
    scene.pinned = i;
    pinned.hidden = i < 0;
    if (i < 0) { pinned.replaceChildren(); draw(); return; }
    const t = scene.timeline, lines = [t.lanes[t.lane[i]][0], t.detail[t.told[i] - 1], ...(t.facts[t.about[i] - 1] || [])];
    if (t.onPath[i] > 0) lines.push(`on the critical path for ${lengthOf(t.onPath[i])} of its ${lengthOf(t.length[i])}`);
    const facts = element("ul", "");
    facts.append(...lines.filter(Boolean).map((words) => element("li", words)));
    pinned.replaceChildren(element("p", describe(i), { className: "name" }), facts, ...links(i), closing(() => pin(-1)));
    say(`Pinned: ${describe(i)}.`);
    draw();
  }

  function links(i) {
    const t = scene.timeline, other = t.link[i] - 1, made = [];
    const go = (words, to) => {
      const button = element("button", `${words}: ${t.text(to)}`, { type: "button" });
      button.addEventListener("click", () => { goTo(to); plot.focus({ preventScroll: true }); });
      made.push(button);
    };
    if (other >= 0) go(labels[t.category[i]] === "wait" ? "it waited for" : "launched by", other);
    const follows = t.link.indexOf(i + 1);
    if (follows >= 0) go(labels[t.category[follows]] === "wait" ? "ended the wait" : "launches", follows);
    return made;
  }

  function closing(act) {
    const button = element("button", "Close", { type: "button" });
    button.addEventListener("click", () => { act(); plot.focus({ preventScroll: true }); });
    return button;
  }

  // An event into view, pinned.
  function goTo(i) {
    const t = scene.timeline, [from, to] = scene.view;
    if (t.start[i] < from || t.end[i] > to) {
      const length = Math.max(to - from, 1.2 * t.length[i]), middle = (t.start[i] + t.end[i]) / 2;
      show(middle - length / 2, middle + length / 2);
    }
    pin(i);
  }

  // From the pinned event to the next one of its lane, or to the nearest of the lane above or below.
  function along(step) {
    const t = scene.timeline, i = scene.pinned;
    if (i < 0) return pinLongest();
    for (let n = i + step; n >= t.from[t.lane[i]] && n < t.from[t.lane[i] + 1]; n += step) {
      if (!scene.hidden.has(t.category[n])) return goTo(n);
    }
  }

  function across(step) {
    const t = scene.timeline, i = scene.pinned;
    if (i < 0) return pinLongest();
    for (let n = scene.rows.findIndex((row) => row.lane === t.lane[i]) + step; n >= 0 && n < scene.rows.length; n += step) {
      const found = t.at(scene.rows[n].lane, (t.start[i] + t.end[i]) / 2, scene.view[1] - scene.view[0], scene.hidden);
      if (found >= 0) return goTo(found);
    }
  }

  function pinLongest() {
    const [first] = scene.timeline.longest(scene.view, scene.hidden, 1);
    if (first !== undefined) goTo(first);
  }

  // Measuring a stretch: its length, and what the device did in it.
  function measure(from, to) {
    const t = scene.timeline, lines = [];
    scene.measured = [from, to];
    for (const row of scene.rows) {
      if (row.level > 0 || row.title.endsWith("critical path")) continue;
      const spent = [...t.spent(row.lane, from, to)].sort((a, b) => b[1] - a[1]);
      if (spent.length) lines.push(`${row.title}: ${spent.map(([sort, ns]) => `${labels[sort]} ${lengthOf(ns)}`).join(", ")}`);
    }
    const facts = element("ul", "");
    facts.append(...lines.map((words) => element("li", words)));
    const near = element("button", "Zoom to it (Z)", { type: "button" });
    near.addEventListener("click", toChosen);
    scene.pinned = -1;
    pinned.hidden = false;
    pinned.replaceChildren(element("p", `${lengthOf(to - from)} measured, from ${inMs(from)} to ${inMs(to)} ms`, { className: "name" }), facts, near, closing(letGo));
    say(`Measured: ${lengthOf(to - from)}, from ${inMs(from)} to ${inMs(to)} ms.`);
    draw();
  }

  function letGo() {
    scene.measured = scene.marked = null;
    pin(-1);
  }

  function toChosen() {
    const t = scene.timeline, i = scene.pinned;
    const range = scene.measured || (i >= 0 ? [t.start[i], t.end[i]] : scene.marked);
    if (range) show(...range);
  }

  function next() {
    const t = scene.timeline, words = byId("find").value.toLowerCase(), found = [];
    for (let i = 0; words && i < t.start.length; i++) {
      if (t.text(i).toLowerCase().includes(words) && !t.lanes[t.lane[i]][0].endsWith("critical path")) found.push(i);
    }
    if (!found.length) return say(words ? `No event in the timeline is named "${words}".` : "Type a part of a name to find.");
    const n = Math.max(found.findIndex((i) => i > scene.found), 0), i = scene.found = found[n];
    mark(t.start[i], t.end[i]);
    pin(i);
    say(`${n + 1} of ${found.length}: ${describe(i)}.`);
  }

  const MOVES = {
    in: () => zoom(0.5), out: () => zoom(2), earlier: () => pan(-0.25), later: () => pan(0.25), next,
    all: () => { scene.marked = scene.measured = null; show(...scene.timeline.extent); },
  };
  const KEYS = {
    "+": MOVES.in, "=": MOVES.in, w: MOVES.in, "-": MOVES.out, s: MOVES.out, ArrowLeft: MOVES.earlier, a: MOVES.earlier,
    ArrowRight: MOVES.later, d: MOVES.later, Home: MOVES.all, 0: MOVES.all, Enter: pinLongest, z: toChosen, Escape: letGo,
    ".": () => along(1), ",": () => along(-1), ArrowDown: () => across(1), ArrowUp: () => across(-1),
  };

  function under(event) {
    const box = canvas.getBoundingClientRect(), [from, to] = scene.view, perPx = (to - from) / box.width;
    const time = from + (event.clientX - box.left) * perPx, y = event.clientY - box.top;
    const row = scene.rows.find((one) => y >= one.y && y < one.y + one.height);
    return { time, event: row ? scene.timeline.at(row.lane, time, NEAR_PX * perPx, scene.hidden) : -1 };
  }

  let pressed = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pressed = { x: event.clientX, ...under(event), moved: false };
    canvas.setPointerCapture(event.pointerId);
    plot.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    const here = under(event);
    if (pressed) {
      pressed.moved ||= Math.abs(event.clientX - pressed.x) > DRAG_PX;
      if (pressed.moved) { scene.measured = [Math.min(pressed.time, here.time), Math.max(pressed.time, here.time)]; draw(); }
      return;
    }
    if (here.event !== scene.hovered) { scene.hovered = here.event; draw(); }
    if (here.event < 0) return hideTip();
    const t = scene.timeline, i = here.event, detail = t.detail[t.told[i] - 1];
    showTipAt(event.clientX, event.clientY, describe(i) + (detail ? ` · ${detail}` : ""));
  });
  canvas.addEventListener("pointerup", (event) => {
    const held = pressed;
    pressed = null;
    if (!held) return;
    if (held.moved) measure(...scene.measured);
    else { scene.measured = null; pin(under(event).event); }
  });
  canvas.addEventListener("pointercancel", () => { pressed = null; scene.measured = null; draw(); });
  canvas.addEventListener("pointerleave", () => { scene.hovered = -1; hideTip(); draw(); });
  canvas.addEventListener("dblclick", () => { letGo(); MOVES.all(); });
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) * WHEEL * 2), under(event).time);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) * WHEEL);
    }
  }, { passive: false });
  plot.addEventListener("keydown", (event) => {
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });

  function choose(number) {
    if (byId("pick")) byId("pick").value = number;
    if (timelines[number] === scene.timeline) return;
    Object.assign(scene, { timeline: timelines[number], view: timelines[number].first.slice(), found: -1, marked: null, measured: null, hovered: -1 });
    pin(-1);
    arrange();
    say(`Shown: ${scene.timeline.title}.`);
  }

  function goToAddress() {
    const state = stateOfPage(), place = /^(-?\d+)-(-?\d+)$/.exec(state.get("at"));
    const numbers = (key) => (state.get(key) || "").split(",").filter(Boolean).map(Number).filter(Number.isFinite);
    if (!place && !["show", "view", "pin", "span", "hide"].some((key) => state.has(key))) return;
    const [show_] = place ? [0] : numbers("show");
    choose(timelines[show_] ? show_ : 0);
    document.getElementById("timeline").scrollIntoView();
    plot.focus({ preventScroll: true });
    if (place) return mark(Number(place[1]), Number(place[2]));
    scene.hidden = new Set(numbers("hide"));
    for (const box of boxes) box.checked = !scene.hidden.has(Number(box.dataset.category));
    arrange();
    const view = numbers("view"), span = numbers("span"), [pinned_] = numbers("pin");
    if (view.length === 2) show(...view);
    if (span.length === 2) measure(...span);
    else pin(pinned_ >= 0 && pinned_ < scene.timeline.start.length ? pinned_ : -1);
  }

  byId("pick")?.addEventListener("change", (event) => choose(Number(event.target.value)));
  byId("path").addEventListener("change", (event) => { scene.showPath = event.target.checked; draw(); });
  byId("find").addEventListener("keydown", (event) => event.key === "Enter" && next());
  document.getElementById("timeline-table").closest("details").addEventListener("toggle", list);
  document.querySelectorAll("[data-move]").forEach((button) => button.addEventListener("click", () => MOVES[button.dataset.move]()));
  for (const box of boxes) box.addEventListener("change", () => {
    box.checked ? scene.hidden.delete(Number(box.dataset.category)) : scene.hidden.add(Number(box.dataset.category));
    arrange();
  });
  document.addEventListener("click", (event) => {
    // A second click on the same link leads there again.
    const link = event.target.closest("a[href^='#at=']");
    if (link && link.getAttribute("href") === location.hash) goToAddress();
  });
  window.addEventListener("hashchange", goToAddress);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { painter.forgetColours(); draw(); });
  new ResizeObserver(() => { width = plot.clientWidth; cutTitles(); draw(); }).observe(plot);
  byId("perfetto").addEventListener("click", () => handToPerfetto(scene.timeline, labels, say));
  document.documentElement.dataset.timeline = "yes";
  arrange();
  kept = JSON.stringify(shownNow());
  goToAddress();
})();
