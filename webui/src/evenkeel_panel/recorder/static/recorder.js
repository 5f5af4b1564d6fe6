// SPDX-License-Identifier: Apache-2.0
// The recorder page: requests the figures every second while the page is visible. htmx puts them into the page.
(() => {
  "use strict";
  document.addEventListener("DOMContentLoaded", () => {
    const poll = document.getElementById("poll");
    const offline = document.getElementById("offline");
    setInterval(() => { if (!document.hidden) htmx.trigger(poll, "tick"); }, 1000);
    document.addEventListener("htmx:afterRequest", ({ detail: { elt, successful, xhr } }) => {
      if (elt === poll) offline.hidden = successful || xhr.status === 401;
    });
  });
})();
