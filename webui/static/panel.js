// SPDX-License-Identifier: Apache-2.0
// The apps page: asks for figures once a second, draws the last 60 s, keeps slider and number in step.
// htmx swaps the figures (/apps/rows); nothing here replaces an input.
(() => {
  "use strict";
  const SPAN = 60; // seconds of history
  const STEPS = 400; // slider positions, 100 per decade: 1 … 10000
  const poll = document.getElementById("poll");
  const offline = document.getElementById("offline");
  const news = document.getElementById("news");
  const rows = new Map(); // name → {element, times, values, plot, state}

  // ---- weight: slider (logarithmic) ⇄ number; performance: a number, or nothing ----
  const toWeight = (position) => {
    const exact = 10 ** (position * 4 / STEPS);
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(exact) + 1e-9) - 1); // two significant digits
    return Math.min(10000, Math.max(1, Math.round(exact / unit) * unit));
  };
  const toPosition = (weight) => Math.round(Math.log10(weight) * STEPS / 4);
  const valid = (text) => /^\s*[0-9]+\s*$/.test(text) && +text >= 1 && +text <= 10000;

  const touch = (row, input) => {
    input.removeAttribute("aria-invalid");
    const changed = (each) => each.value.trim() !== each.dataset.known;
    row.classList.toggle("edited", [...row.querySelectorAll("input.number")].some(changed));
    input.classList.toggle("edited", changed(input));
  };

  const bindPerformance = (row) => {
    const number = row.querySelector("input[name=performance]");
    const off = row.querySelector("[data-action=off]");
    const touched = () => touch(row, number);
    const follow = () => { off.hidden = !number.dataset.known; }; // nothing to switch off: no button
    number.addEventListener("input", touched);
    return { number, follow, touched };
  };

  const bind = (row) => {
    const number = row.querySelector("input[name=weight]");
    const slider = row.querySelector("[data-role=slider]");
    const follow = () => {
      if (!valid(number.value)) return;
      slider.value = toPosition(+number.value);
      slider.setAttribute("aria-valuetext", String(+number.value));
    };
    const touched = () => touch(row, number);
    slider.hidden = false;
    slider.addEventListener("input", () => {
      number.value = toWeight(+slider.value);
      slider.setAttribute("aria-valuetext", number.value);
      touched();
    });
    number.addEventListener("input", () => { follow(); touched(); });
    follow();
    return { number, follow, touched };
  };

  // What is in the figures, as it stands in the input: performance 0 is none.
  const known = (row, field) => {
    const value = row.element.querySelector(`[data-field=${field}]`).dataset.value;
    return field === "performance" && value === "0" ? "" : value;
  };

  // A value that was set elsewhere shows up here, unless this one is being edited.
  const take = (row, field) => {
    const { number, follow, touched } = row.forms[field];
    const value = known(row, field);
    if (number.dataset.known === value) return;
    const untouched = number.value.trim() === number.dataset.known && document.activeElement !== number;
    number.dataset.known = value;
    if (untouched) number.value = value;
    follow();
    touched();
  };

  // ---- the last 60 s ----
  const paint = (row) => getComputedStyle(row.spark).color;
  const tint = (row) => paint(row).replace(/^rgb\(([^)]*)\)$/, (_, parts) => `rgba(${parts}, 0.16)`);
  let top = 1; // MB/s, one scale for all, so that heights compare

  const draw = (row) => {
    row.plot = new uPlot({
      width: Math.max(80, row.spark.clientWidth),
      height: 64,
      padding: [4, 0, 1, 0],
      cursor: { show: false },
      legend: { show: false },
      axes: [{ show: false }, { show: false }],
      scales: { x: { time: false, range: () => { const now = Date.now() / 1000; return [now - SPAN, now]; } }, y: { range: () => [0, top] } },
      series: [{}, { stroke: () => paint(row), fill: () => tint(row), width: 2, points: { show: false }, spanGaps: false }],
    }, [row.times, row.values], row.spark);
    const scale = document.createElement("span");
    scale.className = "scale";
    row.spark.append(scale);
    row.scale = scale;
  };

  const note = (now) => {
    for (const row of rows.values()) {
      const text = row.element.querySelector("[data-mbps]").dataset.mbps;
      row.times.push(now);
      row.values.push(text === "" ? null : +text); // a gap where nothing is known
      while (row.times.length && row.times[0] < now - SPAN - 2) { row.times.shift(); row.values.shift(); }
    }
    const peak = Math.max(1, ...[...rows.values()].flatMap((row) => row.values));
    const unit = 10 ** Math.floor(Math.log10(peak));
    top = Math.ceil(peak * 1.05 / unit * 2) / 2 * unit;
    for (const row of rows.values()) {
      row.plot.setData([row.times, row.values]);
      row.scale.textContent = `${+top.toPrecision(2)} MB/s`;
    }
  };

  const settle = () => {
    for (const [name, row] of rows) {
      const state = row.element.querySelector("[data-field=state]");
      const text = state.textContent.trim();
      if (text !== row.state) {
        if (text !== "unknown" && row.state !== "unknown") {
          news.textContent = `${row.element.querySelector("h2").textContent}: ${text}`;
        }
        row.state = text;
        const runs = text === "running" || text === "starting";
        row.element.querySelector("[data-when=running]").hidden = !runs;
        row.element.querySelector("[data-when=stopped]").hidden = runs || text === "unknown";
      }
      take(row, "weight");
      take(row, "performance");
    }
    // An app came or went: the page is made anew, but not under somebody's hands.
    const names = document.getElementById("names").textContent.trim().split(/\s+/).filter(Boolean);
    const same = names.length === rows.size && names.every((name) => rows.has(name));
    if (!same && !document.querySelector(".app.edited")) location.reload();
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const element of document.querySelectorAll("[data-app]")) {
      const row = { element, times: [], values: [], forms: { weight: bind(element), performance: bindPerformance(element) }, spark: element.querySelector(".spark") };
      row.state = element.querySelector("[data-field=state]").textContent.trim();
      rows.set(element.dataset.app, row);
      draw(row);
    }
    note(Date.now() / 1000);
    new ResizeObserver(() => {
      for (const row of rows.values()) row.plot.setSize({ width: Math.max(80, row.spark.clientWidth), height: 64 });
    }).observe(document.querySelector(".apps"));
    document.addEventListener("theme", () => { for (const row of rows.values()) row.plot.redraw(false); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const row of rows.values()) row.plot.redraw(false);
    });

    // Nothing moves under a button that is being pressed, or the press would be lost: it waits for the release.
    const CLICK_MS = 350; // after a touch the click may come as late
    let pressed = null; // the pointer that does
    let ending = 0;
    const held = [];
    const busy = () => pressed !== null || held.length > 0;
    const still = (change) => { if (busy()) held.push(change); else change(); };
    const flush = () => {
      if (pressed !== null || !held.length) return;
      try { held.shift()(); } finally { flush(); }
    };
    const release = () => {
      clearTimeout(ending);
      pressed = null;
      setTimeout(flush); // after the click
    };
    document.addEventListener("pointerdown", (event) => {
      if (pressed !== null && event.pointerId !== pressed) return; // a second finger
      clearTimeout(ending);
      pressed = event.target.closest("button, input, a") ? event.pointerId : null;
      if (pressed === null) setTimeout(flush);
    }, true);
    document.addEventListener("pointerup", (event) => {
      if (event.pointerId !== pressed) return;
      if (event.pointerType === "mouse") release(); // its click is part of the same event
      else ending = setTimeout(release, CLICK_MS);
    }, true);
    document.addEventListener("click", () => { if (pressed !== null) release(); }, true);
    document.addEventListener("pointercancel", (event) => { if (event.pointerId === pressed) release(); }, true);
    document.addEventListener("dragend", release, true);
    // released outside the window
    document.addEventListener("pointermove", (event) => {
      if (event.pointerId === pressed && event.pointerType === "mouse" && !event.buttons) release();
    }, true);
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      const { shouldSwap, target, serverResponse, requestConfig } = event.detail;
      if (!busy() || !shouldSwap) return;
      event.detail.shouldSwap = false;
      // figures come again with the next answer
      if (requestConfig.elt !== poll) held.push(() => htmx.swap(target, serverResponse, { swapStyle: "innerHTML", swapDelay: 0, settleDelay: 0 }));
    });

    // said once; a reload must not say it again
    const changed = document.getElementById("changed");
    if (changed) {
      history.replaceState(null, "", location.pathname);
      setTimeout(() => still(() => changed.remove()), 10000);
    }

    const tick = () => { if (!document.hidden) htmx.trigger(poll, "tick"); };
    setInterval(tick, 1000);
    document.addEventListener("visibilitychange", tick);

    document.body.addEventListener("htmx:afterRequest", (event) => {
      const { elt, xhr } = event.detail;
      const successful = xhr.status >= 200 && xhr.status < 300;
      if (elt === poll) {
        if (busy()) return;
        offline.hidden = successful || xhr.status === 401;
        if (successful) { settle(); note(Date.now() / 1000); }
        return;
      }
      const app = elt.closest("[data-app]");
      if (!app) return;
      still(() => {
        const row = rows.get(app.dataset.app);
        const answer = (elt.matches(".weigh, .regulate") ? elt : app).querySelector(".answer");
        if (!xhr.status || [502, 504].includes(xhr.status) || xhr.status === 413) {
          answer.innerHTML = '<p class="message bad">The panel does not answer. Try again in a moment.</p>';
        }
        if (successful) { // good news goes by itself, a refusal stays until it is mended
          const message = answer.firstElementChild;
          setTimeout(() => still(() => { if (message && message.parentNode === answer) answer.replaceChildren(); }), 10000);
        }
        const field = elt.matches(".weigh") ? "weight" : elt.matches(".regulate") ? "performance" : null;
        if (!field) return;
        const { number, follow, touched } = row.forms[field];
        // nobody who has gone on to another field is called back
        const free = document.activeElement === document.body || elt.contains(document.activeElement);
        if (successful) {
          number.dataset.known = known(row, field);
          number.value = number.dataset.known;
          follow();
          touched();
          // the button that was pressed may be gone, and the focus must not be
          if (free && event.detail.requestConfig.triggeringEvent?.submitter?.hidden) {
            elt.querySelector("[data-action=regulate]").focus();
          }
        } else {
          number.setAttribute("aria-invalid", "true");
          if (free) number.focus();
        }
      });
    });
  });
})();
