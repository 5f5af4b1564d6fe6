// SPDX-License-Identifier: Apache-2.0
// Sets the light or dark theme before the first paint: the user's choice in this browser, else the system's.
(() => {
  "use strict";
  const root = document.documentElement;
  const key = "evenkeel-theme";
  let saved = null;
  try { saved = localStorage.getItem(key); } catch { /* no storage: use the system's theme */ }
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;

  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-action=theme]")) {
      button.hidden = false;
      button.addEventListener("click", () => {
        root.dataset.theme = dark() ? "light" : "dark";
        try { localStorage.setItem(key, root.dataset.theme); } catch { /* no storage: the choice is for this page only */ }
        document.dispatchEvent(new Event("theme"));
      });
    }
  });
})();
