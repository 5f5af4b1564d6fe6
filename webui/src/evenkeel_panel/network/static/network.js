// SPDX-License-Identifier: Apache-2.0
// Counts down the seconds until the board undoes a change, and loads the page again after them. Without this script, the
// page shows the time that was left when it was loaded, and a link to look again.
"use strict";

const AFTER_MS = 4000; // the board needs this time to undo the change

for (const shown of document.querySelectorAll("[data-left]")) {
  const end = performance.now() + Number(shown.dataset.left) * 1000;
  const timer = setInterval(() => {
    const left = Math.max(Math.ceil((end - performance.now()) / 1000), 0);
    shown.textContent = String(left);
    if (left === 0) {
      clearInterval(timer);
      setTimeout(() => location.assign("/network"), AFTER_MS);
    }
  }, 500);
}
