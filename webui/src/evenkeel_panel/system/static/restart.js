// SPDX-License-Identifier: Apache-2.0
// After an order to restart: waits until the panel has stopped answering and answers again, then shows the page in data-back.
(() => {
  "use strict";
  const PAUSE_MS = 2000;
  const AT_MOST_MS = 10000; // for an answer
  const SURE_MS = 90000; // the board may have stopped and started between two questions
  const TOO_LONG_MS = 300000;
  const began = performance.now();
  let stopped = false;
  const ask = async () => {
    let answers = false;
    try {
      const got = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(AT_MOST_MS) });
      answers = got.ok;
    } catch {
      answers = false;
    }
    if (!answers) stopped = true;
    if (performance.now() - began > TOO_LONG_MS) {
      document.getElementById("waiting").textContent = "The panel has not answered for five minutes."
        + " Check the power and the network. If both are well, switch the board off and on. This page keeps waiting.";
    }
    if (answers && (stopped || performance.now() - began > SURE_MS)) location.href = document.getElementById("restarting").dataset.back;
    else setTimeout(ask, PAUSE_MS);
  };
  setTimeout(ask, PAUSE_MS);
})();
