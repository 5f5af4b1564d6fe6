// SPDX-License-Identifier: Apache-2.0
// The overview: requests new figures every second, and a new chart every ten seconds. htmx puts them into the page.
(() => {
  "use strict";
  const CHART_TICKS = 10; // seconds between two charts
  const CLICK_MS = 350; // after a touch, the click may come this much later than the release
  const poll = document.getElementById("poll");
  const chart = document.getElementById("poll-chart");
  const offline = document.getElementById("offline");
  const announcements = document.getElementById("announcements");
  const heading = () => document.querySelector("#headline h1").textContent.trim();
  let shown = heading();
  let ticks = 0;
  let pressed = false; // Invariant: nothing moves while a button or link is pressed. Otherwise the click would be lost.

  const tick = () => {
    if (document.hidden) return;
    htmx.trigger(poll, "tick");
    ticks += 1;
    if (ticks % CHART_TICKS === 0) htmx.trigger(chart, "tick");
  };

  document.addEventListener("DOMContentLoaded", () => {
    setInterval(tick, 1000);
    document.addEventListener("visibilitychange", tick);
    document.addEventListener("pointerdown", (event) => { pressed = Boolean(event.target.closest("a, button")); }, true);
    document.addEventListener("pointerup", () => setTimeout(() => { pressed = false; }, CLICK_MS), true);
    for (const name of ["click", "pointercancel", "dragend"]) {
      document.addEventListener(name, () => { pressed = false; }, true);
    }
    document.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse" && !event.buttons) pressed = false;
    }, true);
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      if (pressed) event.detail.shouldSwap = false; // the next poll brings new figures
    });
    document.body.addEventListener("htmx:afterRequest", (event) => {
      const { elt, xhr } = event.detail;
      if (elt !== poll || pressed) return;
      const successful = xhr.status >= 200 && xhr.status < 300;
      offline.hidden = successful || xhr.status === 401;
      if (successful && heading() !== shown) {
        shown = heading();
        announcements.textContent = shown;
      }
    });
  });
})();
