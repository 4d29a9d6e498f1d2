// The timelines of the page as values: events by lane in time order, and what of them is where.
"use strict";

class Timeline {
  constructor(raw) {
    const count = raw.start.length;
    // Columns that are left out are the same for all events.
    for (const name of ["told", "about", "link", "onPath"]) this[name] = new Uint8Array(count);
    this.filled = new Uint8Array(count).fill(100);
    Object.assign(this, raw, { start: new Float64Array(count), end: new Float64Array(count), category: Uint8Array.from(raw.category) });
    this.lane = new Uint16Array(count);
    // Per lane: its first event, and the one after its last.
    this.from = [];
    // The latest end so far: it rises, so that a lane can be searched for what is in view.
    this.reach = new Float64Array(count);
    this.sorts = raw.lanes.map(() => new Set());
    let i = 0;
    raw.counts.forEach((events, lane) => {
      this.from.push(i);
      let at = raw.extent[0], reach = -Infinity;
      for (const stop = i + events; i < stop; i++) {
        at += raw.start[i];
        this.start[i] = at;
        this.end[i] = at + raw.length[i];
        this.lane[i] = lane;
        this.reach[i] = reach = Math.max(reach, this.end[i]);
        this.sorts[lane].add(raw.category[i]);
      }
    });
    this.from.push(i);
  }

  text(i) {
    return this.names[this.name[i] - 1] || "";
  }

  // The first event of a lane that ends after a time.
  firstAfter(lane, time) {
    return lowerBound(this.reach, time, this.from[lane], this.from[lane + 1]);
  }

  // The event of a lane nearest to a time, at most so far from it; -1 where there is none.
  at(lane, time, tolerance, hidden) {
    let best = -1, least = tolerance;
    for (let i = this.firstAfter(lane, time - tolerance); i < this.from[lane + 1] && this.start[i] <= time + tolerance; i++) {
      if (hidden.has(this.category[i])) continue;
      const away = Math.max(this.start[i] - time, time - this.end[i], 0);
      if (away <= least) { best = i; least = away; }
    }
    return best;
  }

  // Time of a stretch by what a lane shows in it.
  spent(lane, from, to) {
    const sums = new Map();
    for (let i = this.firstAfter(lane, from); i < this.from[lane + 1] && this.start[i] < to; i++) {
      const inside = Math.min(this.end[i], to) - Math.max(this.start[i], from);
      if (inside > 0) sums.set(this.category[i], (sums.get(this.category[i]) || 0) + inside);
    }
    return sums;
  }

  // Events in view, longest first.
  longest(view, hidden, most) {
    const rows = [];
    for (let i = 0; i < this.start.length; i++) {
      if (this.end[i] >= view[0] && this.start[i] <= view[1] && !hidden.has(this.category[i])) rows.push(i);
    }
    return rows.sort((a, b) => this.length[b] - this.length[a]).slice(0, most);
  }
}

// The first index from `low` to `high` at which the sorted values exceed one.
function lowerBound(values, value, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function inMs(ns) {
  return (ns / 1e6).toFixed(4);
}

function lengthOf(ns) {
  return ns < 1e3 ? `${Math.round(ns)} ns` : ns < 1e6 ? `${(ns / 1e3).toPrecision(4)} us` : `${(ns / 1e6).toPrecision(4)} ms`;
}
