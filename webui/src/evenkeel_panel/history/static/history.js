// SPDX-License-Identifier: Apache-2.0
// The history page: a drag across a chart zooms to this part of it. The form "Zoom in" does the same without this script.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const LEAST_PX = 8; // a shorter drag is a click
  const SHORTEST_S = 60; // the shortest span that the panel accepts
  const form = document.getElementById("zoom");
  if (!form) return;
  const plots = document.querySelectorAll(".plot[data-start]");
  const field = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19);

  for (const plot of plots) {
    let from = null; // where the drag began, in pixels; null: no drag
    let box = null;
    let area = null;
    const at = (event) => Math.min(Math.max(event.clientX - box.left, 0), box.width);
    const end = () => {
      from = null;
      area?.remove();
      area = null;
      plot.classList.remove("dragged");
    };
    const draw = (to) => {
      if (!area) {
        const layer = document.createElementNS(SVG, "svg");
        layer.setAttribute("class", "marks");
        layer.append(document.createElementNS(SVG, "rect"));
        layer.firstChild.setAttribute("class", "drag");
        layer.firstChild.setAttribute("height", "100%");
        plot.append(layer);
        area = layer;
      }
      area.firstChild.setAttribute("x", Math.min(from, to));
      area.firstChild.setAttribute("width", Math.abs(to - from));
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !event.isPrimary) return;
      box = plot.getBoundingClientRect();
      from = at(event);
    });
    plot.addEventListener("pointermove", (event) => {
      if (from === null || Math.abs(at(event) - from) < LEAST_PX) return;
      plot.setPointerCapture(event.pointerId);
      plot.classList.add("dragged");
      draw(at(event));
    });
    plot.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const [low, high] = [from, at(event)].sort((a, b) => a - b);
      const dragged = area !== null && high - low >= LEAST_PX;
      end();
      if (!dragged) return;
      const start = Number(plot.dataset.start);
      const length = Number(plot.dataset.end) - start;
      let first = Math.floor(start + (low / box.width) * length);
      let last = Math.ceil(start + (high / box.width) * length);
      if (last - first < SHORTEST_S) {
        first = Math.floor((first + last - SHORTEST_S) / 2);
        last = first + SHORTEST_S;
      }
      form.elements.start.value = field(first);
      form.elements.end.value = field(last);
      form.submit();
    });
    plot.addEventListener("pointercancel", end);
    plot.addEventListener("dragstart", (event) => event.preventDefault()); // a mark is a link
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") end();
    });
  }
  document.getElementById("drag").hidden = !plots.length;
})();
