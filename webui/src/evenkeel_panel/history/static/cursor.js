// SPDX-License-Identifier: Apache-2.0
// The charts of the history: shows the values at the pointer, or with the arrow keys on a chart that has the focus.
// The values come from the drawn paths, so they need no request, and are as precise as the picture: a thousandth of its scale.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 10000; // the box of the paths, as in chart.py
  const HEIGHT = 1000;
  const MOST = 8; // the number of apps that are shown, the largest values first

  // The steps of a path: [[left, right, y], …]
  const steps = (path) => {
    const found = [];
    let [x, y] = [0, 0];
    for (const [, verb, first, second] of path.matchAll(/([MLHV])([\d.]+)(?:,([\d.]+))?/g)) {
      if (verb === "V") y = +first;
      else if (verb === "H") {
        if (+first > x) found.push([x, +first, y]);
        x = +first;
      } else [x, y] = [+first, +second];
    }
    return found;
  };

  // The step at X of steps in the order of time
  const stepAt = (found, x) => {
    let [low, high] = [0, found.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (found[middle][1] <= x) low = middle + 1;
      else high = middle;
    }
    return low < found.length && found[low][0] <= x ? found[low] : null;
  };

  const digits = (value) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
  const latency = (us) => {
    if (us >= 1e6) return `${digits(us / 1e6)} s`;
    return us >= 1000 ? `${digits(us / 1000)} ms` : `${us.toFixed(0)} µs`;
  };

  class Cursor {
    constructor(plot) {
      const { start, end, step, low, high, unit, scale, heading } = plot.dataset;
      this.plot = plot;
      this.start = +start;
      this.end = +end;
      this.step = +step;
      this.at = null; // the x coordinate of the cursor; null: it is hidden
      const [least, most] = [+low, +high];
      this.stacked = scale !== "logarithmic";
      if (this.stacked) {
        const decimals = Math.max(0, Math.ceil(-Math.log10(most / HEIGHT)));
        this.value = (y) => most * (1 - y / HEIGHT);
        this.text = (value) => `${value.toFixed(decimals)} ${unit}`;
        this.nothing = `Less than ${this.text(most / HEIGHT)} each.`;
      } else {
        this.value = (y) => least * (most / least) ** (1 - y / HEIGHT);
        this.text = latency;
        this.nothing = "No requests.";
      }
      // The lowest area is the last path.
      this.series = [...plot.querySelectorAll("path")].reverse().map((path) => {
        const name = path.textContent.trim();
        path.replaceChildren(); // its title would be a second box at the pointer
        return { name, color: path.getAttribute("class"), steps: steps(path.getAttribute("d")) };
      });
      this.edges = [...new Set(this.series.flatMap((one) => one.steps.map(([left]) => left)))].sort((a, b) => a - b);
      this.box = null;
      plot.tabIndex = 0;
      plot.setAttribute("role", "group");
      plot.setAttribute("aria-label", `${heading}. The arrow keys show its values.`);
      plot.addEventListener("pointermove", (event) => this.follow(event));
      plot.addEventListener("pointerdown", (event) => this.follow(event));
      plot.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.hide(); });
      plot.addEventListener("keydown", (event) => this.key(event));
      plot.addEventListener("blur", () => this.hide());
    }

    follow(event) {
      const { left, width } = this.plot.getBoundingClientRect();
      this.show(Math.min(Math.max((event.clientX - left) / width, 0), 0.9999) * WIDTH, false);
    }

    // Left and right go to the neighbouring value, Home and End to the first and last one.
    key(event) {
      if (event.key === "Escape") {
        this.hide();
        return;
      }
      const edges = this.edges;
      const now = edges.findLastIndex((edge) => edge <= (this.at ?? -1));
      const next = { ArrowLeft: this.at === null ? edges.length - 1 : now - 1, ArrowRight: now + 1, Home: 0, End: edges.length - 1 }[event.key];
      if (next === undefined || !edges.length) return;
      event.preventDefault();
      this.show(edges[Math.min(Math.max(next, 0), edges.length - 1)], true);
    }

    // The values at X, the largest first
    values(x) {
      let below = 0;
      const found = [];
      for (const { name, color, steps: of } of this.series) {
        const step = stepAt(of, x);
        if (!step) continue;
        const value = this.value(step[2]);
        if (value > below || !this.stacked) found.push({ name, color, value: this.stacked ? value - below : value });
        if (this.stacked) below = value;
      }
      return found.sort((one, other) => other.value - one.value);
    }

    time(x) {
      const seconds = this.start + (x / WIDTH) * (this.end - this.start);
      const text = new Date(Math.round(seconds / this.step) * this.step * 1000).toISOString().replace("T", " ");
      return text.slice(0, this.step >= 86400 ? 10 : this.step >= 60 ? 16 : 19);
    }

    show(x, aloud) {
      if (!this.box) this.make();
      this.at = x;
      this.line.setAttribute("x1", `${x / WIDTH * 100}%`);
      this.line.setAttribute("x2", `${x / WIDTH * 100}%`);
      this.box.className = `readout ${x > WIDTH / 2 ? "left" : "right"}`;
      const found = this.series.map((one) => stepAt(one.steps, x)).find(Boolean);
      const values = this.values(x);
      const time = document.createElement("p");
      time.textContent = `${this.time(found ? found[0] : x)} UTC`;
      const list = document.createElement("ul");
      for (const { name, color, value } of values.slice(0, MOST)) {
        const row = list.appendChild(document.createElement("li"));
        const key = row.appendChild(document.createElement("span"));
        key.className = `key ${color}`;
        key.textContent = name;
        row.appendChild(document.createElement("b")).textContent = this.text(value);
      }
      const rest = values.length - MOST;
      const words = !found ? "Nothing was recorded." : !values.length ? this.nothing : rest > 0 ? `${rest} more` : "";
      if (words) list.appendChild(document.createElement("li")).textContent = words;
      this.box.setAttribute("aria-live", aloud ? "polite" : "off");
      this.box.replaceChildren(time, list);
    }

    make() {
      const layer = document.createElementNS(SVG, "svg");
      layer.setAttribute("class", "marks at");
      layer.setAttribute("aria-hidden", "true");
      this.line = layer.appendChild(document.createElementNS(SVG, "line"));
      this.line.setAttribute("class", "cursor");
      this.line.setAttribute("y2", "100%");
      this.box = document.createElement("div");
      this.layer = layer;
      this.plot.append(layer, this.box);
    }

    hide() {
      this.layer?.remove();
      this.box?.remove();
      this.box = this.layer = this.at = null;
    }
  }

  for (const plot of document.querySelectorAll(".plot[data-unit]")) new Cursor(plot);
})();
