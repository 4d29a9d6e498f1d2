// Hands the timeline that is shown to Perfetto's page, in a window of its own. Only on a click, only to that page, only what
// this page shows already: the trace goes from window to window, Perfetto reads it within the browser.
"use strict";

const PERFETTO = "https://ui.perfetto.dev", ASK_MS = 100, PATIENCE_MS = 60000;

// As the Trace Event Format has it: a thread for each lane with its levels, an arrow from each launch to its kernel.
function traceOf(timeline, labels) {
  const threads = [...new Set(timeline.lanes.map(([title]) => title))], tids = timeline.lanes.map(([title]) => threads.indexOf(title) + 1);
  const events = threads.map((name, n) => ({ ph: "M", name: "thread_name", pid: 1, tid: n + 1, args: { name } }));
  const origin = timeline.extent[0], at = (ns) => (ns - origin) / 1e3, flows = [];
  timeline.start.forEach((start, i) => {
    const place = { pid: 1, tid: tids[timeline.lane[i]] }, other = timeline.link[i] - 1;
    const args = { detail: timeline.detail[timeline.told[i] - 1], facts: (timeline.facts[timeline.about[i] - 1] || []).join("; ") };
    events.push({ ph: "X", ...place, ts: at(start), dur: timeline.length[i] / 1e3, name: timeline.text(i), cat: labels[timeline.category[i]], args });
    if (other < 0 || timeline.start[other] > start) return;
    const flow = { cat: "launch", name: "launch", id: i + 1, pid: 1 };
    flows.push({ ph: "s", ...flow, tid: tids[timeline.lane[other]], ts: at(timeline.start[other]) }, { ph: "f", bp: "e", ...flow, tid: place.tid, ts: at(start) });
  });
  // An arrow belongs to the slice that is open at its time: slices of the same time come first.
  return { displayTimeUnit: "ns", traceEvents: events.concat(flows) };
}

// Asks the window whether Perfetto is there until it says so, then hands over the trace; `say` tells what came of it.
function handToPerfetto(timeline, labels, say) {
  const there = window.open(PERFETTO), begun = performance.now();
  if (!there) return say("The browser opened no window for Perfetto.");
  say("Perfetto opens in a window of its own.");
  const ask = setInterval(() => {
    if (there.closed || performance.now() - begun > PATIENCE_MS) return done("Perfetto did not answer.");
    there.postMessage("PING", PERFETTO);
  }, ASK_MS);
  function done(words) {
    clearInterval(ask);
    window.removeEventListener("message", answered);
    say(words);
  }
  function answered(event) {
    if (event.origin !== PERFETTO || event.source !== there || event.data !== "PONG") return;
    const buffer = new TextEncoder().encode(JSON.stringify(traceOf(timeline, labels))).buffer;
    there.postMessage({ perfetto: { buffer, title: timeline.title || document.title, keepApiOpen: false } }, PERFETTO);
    done("Perfetto has the events of this timeline; it may ask whether to open them.");
  }
  window.addEventListener("message", answered);
}
