// SPDX-License-Identifier: Apache-2.0
// Light or dark, before the first paint: the choice kept in this browser, else the system's.
(() => {
  "use strict";
  const root = document.documentElement;
  const key = "evenkeel-theme";
  let kept = null;
  try { kept = localStorage.getItem(key); } catch { /* storage is off: follow the system */ }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;

  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-action=theme]")) {
      button.hidden = false;
      button.addEventListener("click", () => {
        root.dataset.theme = dark() ? "light" : "dark";
        try { localStorage.setItem(key, root.dataset.theme); } catch { /* it lasts for this page */ }
        document.dispatchEvent(new Event("theme"));
      });
    }
  });
})();
