// SPDX-License-Identifier: Apache-2.0
// The apps page: requests figures every second, draws the last 60 s, and keeps slider and number field equal.
// htmx replaces the figures (/apps/rows). Invariant: no input element is ever replaced, so that typing is not lost.
(() => {
  "use strict";
  const SPAN = 60; // seconds of history
  const STEPS = 400; // slider positions, 100 per decade: 1 … 10000
  const MESSAGE_MS = 10000; // how long a success message stays
  const poll = document.getElementById("poll");
  const offline = document.getElementById("offline");
  const announcements = document.getElementById("announcements");
  const rows = new Map(); // name → {element, times, values, forms, chart, plot, scale, state}

  // ---- forms: a weight has a number field and a logarithmic slider; a fixed share has a number field, which may be empty ----
  const toWeight = (position) => {
    const exact = 10 ** (position * 4 / STEPS);
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(exact) + 1e-9) - 1); // two significant digits
    return Math.min(10000, Math.max(1, Math.round(exact / unit) * unit));
  };
  const toPosition = (weight) => Math.round(Math.log10(weight) * STEPS / 4);
  const valid = (text) => /^\s*[0-9]+\s*$/.test(text) && +text >= 1 && +text <= 10000;

  const markEdited = (row, input) => {
    input.removeAttribute("aria-invalid");
    const changed = (each) => each.value.trim() !== each.dataset.known;
    row.classList.toggle("edited", [...row.querySelectorAll("input.number")].some(changed));
    input.classList.toggle("edited", changed(input));
  };

  // Each bind function returns the number field and two functions. Call both after its value or data-known has changed.
  const bindFixedShare = (row) => {
    const number = row.querySelector("input[name=fixed_share]");
    const off = row.querySelector("[data-action=off]");
    const edited = () => markEdited(row, number);
    const update = () => { off.hidden = !number.dataset.known; }; // the button is useless while no fixed share is set
    number.addEventListener("input", edited);
    return { number, update, edited };
  };

  const bindWeight = (row) => {
    const number = row.querySelector("input[name=weight]");
    const slider = row.querySelector("[data-role=slider]");
    const update = () => {
      if (!valid(number.value)) return;
      slider.value = toPosition(+number.value);
      slider.setAttribute("aria-valuetext", String(+number.value));
    };
    const edited = () => markEdited(row, number);
    slider.hidden = false;
    slider.addEventListener("input", () => {
      number.value = toWeight(+slider.value);
      slider.setAttribute("aria-valuetext", number.value);
      edited();
    });
    number.addEventListener("input", () => { update(); edited(); });
    update();
    return { number, update, edited };
  };

  // The value that the figures show, as text for the input. For a fixed share of 0, the input is empty.
  const shown = (row, field) => {
    const value = row.element.querySelector(`[data-field=${field}]`).dataset.value;
    return field === "fixed_share" && value === "0" ? "" : value;
  };

  // Copies a value that was set elsewhere into the input, unless the user is editing the input.
  const syncInput = (row, field) => {
    const { number, update, edited } = row.forms[field];
    const value = shown(row, field);
    if (number.dataset.known === value) return;
    const untouched = number.value.trim() === number.dataset.known && document.activeElement !== number;
    number.dataset.known = value;
    if (untouched) number.value = value;
    update();
    edited();
  };

  // ---- charts of the last 60 s ----
  const lineColor = (row) => getComputedStyle(row.chart).color;
  const fillColor = (row) => lineColor(row).replace(/^rgb\(([^)]*)\)$/, (_, parts) => `rgba(${parts}, 0.16)`);
  let top = 1; // MB/s; all charts have the same scale, so that their heights can be compared

  const draw = (row) => {
    row.plot = new uPlot({
      width: Math.max(80, row.chart.clientWidth),
      height: 64,
      padding: [4, 0, 1, 0],
      cursor: { show: false },
      legend: { show: false },
      axes: [{ show: false }, { show: false }],
      scales: { x: { time: false, range: () => { const now = Date.now() / 1000; return [now - SPAN, now]; } }, y: { range: () => [0, top] } },
      series: [{}, { stroke: () => lineColor(row), fill: () => fillColor(row), width: 2, points: { show: false }, spanGaps: false }],
    }, [row.times, row.values], row.chart);
    const scale = document.createElement("span");
    scale.className = "scale";
    row.chart.append(scale);
    row.scale = scale;
  };

  const addSamples = (now) => {
    for (const row of rows.values()) {
      const text = row.element.querySelector("[data-mbps]").dataset.mbps;
      row.times.push(now);
      row.values.push(text === "" ? null : +text); // null makes a gap: the agent did not answer
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

  // Updates buttons and inputs after new figures have arrived.
  const updateRows = () => {
    for (const [name, row] of rows) {
      const state = row.element.querySelector("[data-field=state]");
      const text = state.textContent.trim();
      if (text !== row.state) {
        if (text !== "unknown" && row.state !== "unknown") {
          announcements.textContent = `${row.element.querySelector("h2").textContent}: ${text}`;
        }
        row.state = text;
        const runs = text === "running" || text === "starting";
        row.element.querySelector("[data-when=running]").hidden = !runs;
        row.element.querySelector("[data-when=stopped]").hidden = runs || text === "unknown";
      }
      syncInput(row, "weight");
      syncInput(row, "fixed_share");
    }
    // If the list of apps has changed, load the page again, but not while the user is editing.
    const names = document.getElementById("app-names").textContent.trim().split(/\s+/).filter(Boolean);
    const same = names.length === rows.size && names.every((name) => rows.has(name));
    if (!same && !document.querySelector(".app.edited")) location.reload();
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const element of document.querySelectorAll("[data-app]")) {
      const forms = { weight: bindWeight(element), fixed_share: bindFixedShare(element) };
      const row = { element, times: [], values: [], forms, chart: element.querySelector(".chart") };
      row.state = element.querySelector("[data-field=state]").textContent.trim();
      rows.set(element.dataset.app, row);
      draw(row);
    }
    addSamples(Date.now() / 1000);
    new ResizeObserver(() => {
      for (const row of rows.values()) row.plot.setSize({ width: Math.max(80, row.chart.clientWidth), height: 64 });
    }).observe(document.querySelector(".apps"));
    document.addEventListener("theme", () => { for (const row of rows.values()) row.plot.redraw(false); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const row of rows.values()) row.plot.redraw(false);
    });

    // ---- press of a button ----
    // Invariant: nothing moves while a button is pressed. Otherwise the release would miss the button, and the
    // click would be lost. Changes of the page wait until the click has been handled.
    const CLICK_MS = 350; // after a touch, the click may come this much later than the release
    let pressed = null; // id of the pointer that presses a button
    let releaseTimer = 0;
    const deferred = []; // changes that wait for the release
    const busy = () => pressed !== null || deferred.length > 0;
    const whenReleased = (change) => { if (busy()) deferred.push(change); else change(); };
    const runDeferred = () => {
      if (pressed !== null || !deferred.length) return;
      try { deferred.shift()(); } finally { runDeferred(); }
    };
    const release = () => {
      clearTimeout(releaseTimer);
      pressed = null;
      setTimeout(runDeferred); // after the click
    };
    document.addEventListener("pointerdown", (event) => {
      if (pressed !== null && event.pointerId !== pressed) return; // a second finger
      clearTimeout(releaseTimer);
      pressed = event.target.closest("button, input, a") ? event.pointerId : null;
      if (pressed === null) setTimeout(runDeferred);
    }, true);
    document.addEventListener("pointerup", (event) => {
      if (event.pointerId !== pressed) return;
      if (event.pointerType === "mouse") release(); // a mouse's click belongs to the same event
      else releaseTimer = setTimeout(release, CLICK_MS);
    }, true);
    document.addEventListener("click", () => { if (pressed !== null) release(); }, true);
    document.addEventListener("pointercancel", (event) => { if (event.pointerId === pressed) release(); }, true);
    document.addEventListener("dragend", release, true);
    // If the mouse was released outside the window, the next movement without a pressed button shows it.
    document.addEventListener("pointermove", (event) => {
      if (event.pointerId === pressed && event.pointerType === "mouse" && !event.buttons) release();
    }, true);
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      const { shouldSwap, target, serverResponse, requestConfig } = event.detail;
      if (!busy() || !shouldSwap) return;
      event.detail.shouldSwap = false;
      // Figures are dropped, because the next poll brings new ones. The answer to a form is shown after the release.
      if (requestConfig.elt !== poll) deferred.push(() => htmx.swap(target, serverResponse, { swapStyle: "innerHTML", swapDelay: 0, settleDelay: 0 }));
    });

    // Remove "?changed" from the address, so that a reload does not show the message about the new password again.
    const changed = document.getElementById("changed");
    if (changed) {
      history.replaceState(null, "", location.pathname);
      setTimeout(() => whenReleased(() => changed.remove()), MESSAGE_MS);
    }

    // ---- polls and answers ----
    const tick = () => { if (!document.hidden) htmx.trigger(poll, "tick"); };
    setInterval(tick, 1000);
    document.addEventListener("visibilitychange", tick);

    // A line that says what a value would do is about a value that is not applied. Apply may be pressed while the request for
    // the line waits for its delay, or for its answer.
    document.body.addEventListener("htmx:beforeRequest", (event) => {
      const { elt } = event.detail;
      if (!elt.matches(".what-if")) {
        const line = elt.querySelector(":scope > .what-if");
        if (line) htmx.trigger(line, "htmx:abort");
      } else if (elt.closest("form").matches(".htmx-request") || !elt.closest("form").querySelector("input.edited")) {
        elt.replaceChildren();
        event.preventDefault();
      }
    });

    document.body.addEventListener("htmx:afterRequest", (event) => {
      const { elt, xhr } = event.detail;
      const successful = xhr.status >= 200 && xhr.status < 300;
      if (elt === poll) {
        if (busy()) return;
        offline.hidden = successful || xhr.status === 401;
        if (successful) { updateRows(); addSamples(Date.now() / 1000); }
        return;
      }
      const app = elt.closest("[data-app]");
      if (!app || elt.matches(".what-if")) return;
      whenReleased(() => {
        const row = rows.get(app.dataset.app);
        const answer = (elt.matches(".weight-form, .fixed-share-form") ? elt : app).querySelector(".answer");
        if (!xhr.status || [502, 504].includes(xhr.status) || xhr.status === 413) {
          answer.innerHTML = '<p class="message bad">The panel does not answer. Try again in a moment.</p>';
        }
        if (successful) { // a success message disappears by itself; an error stays until the next answer
          const message = answer.firstElementChild;
          setTimeout(() => whenReleased(() => { if (message && message.parentNode === answer) answer.replaceChildren(); }), MESSAGE_MS);
        }
        // If the pressed button is hidden or replaced now (Off, Undo), its successor or Apply gets the focus. The script may
        // move the focus only if the user has not moved it to another form.
        const submitter = event.detail.requestConfig.triggeringEvent?.submitter;
        const mayFocus = document.activeElement === document.body || elt.contains(document.activeElement);
        const focusSuccessor = () => {
          if (!mayFocus || !submitter || (!submitter.hidden && submitter.isConnected)) return;
          (elt.querySelector(`[data-action=${submitter.dataset.action}]:not([hidden])`) || elt.querySelector(".primary"))?.focus();
        };
        const field = elt.matches(".weight-form") ? "weight" : elt.matches(".fixed-share-form") ? "fixed_share" : null;
        if (!field) {
          focusSuccessor();
          return;
        }
        const { number, update, edited } = row.forms[field];
        if (successful) {
          number.dataset.known = shown(row, field);
          number.value = number.dataset.known;
          update();
          edited();
          focusSuccessor();
        } else {
          number.setAttribute("aria-invalid", "true");
          if (mayFocus) number.focus();
        }
      });
    });
  });
})();
