// SPDX-License-Identifier: Apache-2.0
// The page of updates: uploads a bundle with a progress bar, and shows what the board found in it.
(() => {
  "use strict";
  const form = document.getElementById("upload");
  if (!form) return;
  const file = document.getElementById("bundle");
  const [send] = form.querySelectorAll("button[type=submit]");
  const cancel = form.querySelector("[data-action=cancel]");
  const line = document.getElementById("upload-progress");
  const bar = line.querySelector("progress");
  const message = document.getElementById("upload-message");
  const install = document.getElementById("install-upload");
  let request = null;

  const say = (text, kind) => {
    message.textContent = text;
    message.className = `message ${kind}`;
  };
  const busy = (on) => {
    file.disabled = send.disabled = on;
    cancel.hidden = line.hidden = !on;
  };
  const answered = () => {
    busy(false);
    let answer = {};
    try {
      answer = JSON.parse(request.responseText);
    } catch {
      answer = {};
    }
    if (request.status !== 200 || !answer.version) {
      say(answer.reason || `The upload failed (${request.status}). Nothing was installed. Try again.`, "bad");
      return;
    }
    const about = answer.description ? `: ${answer.description}` : "";
    const age = answer.older ? " It is older than the version that runs." : "";
    say(`The bundle contains version ${answer.version}${about}. Its signature is valid.${age}`, answer.older ? "wait" : "ok");
    install.hidden = false;
    install.querySelector("div").hidden = !answer.older; // whether to install an older version is a question only then
    install.querySelector("button").focus();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [bundle] = file.files;
    if (!bundle) return;
    install.hidden = true;
    request = new XMLHttpRequest();
    request.open("POST", "/upload/bundle");
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("X-CSRFToken", form.elements.csrf_token.value);
    request.upload.addEventListener("progress", (at) => { bar.value = at.loaded / at.total; });
    request.upload.addEventListener("load", () => say("The board checks the bundle.", "wait"));
    request.addEventListener("load", answered);
    request.addEventListener("error", () => {
      busy(false);
      say("The connection to the board was lost. Nothing was installed. Try again.", "bad");
    });
    request.addEventListener("abort", () => {
      busy(false);
      say("The upload was cancelled. Nothing was installed.", "wait");
    });
    busy(true);
    bar.value = 0;
    say(`The browser sends ${(bundle.size / 1e6).toFixed(0)} MB to the board.`, "wait");
    request.send(bundle);
  });
  cancel.addEventListener("click", () => request.abort());
  busy(false);
})();
