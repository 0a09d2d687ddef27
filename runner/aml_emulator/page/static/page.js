// Keeps the page of something that still goes on fresh. Without scripts, the browser loads the page again instead.
"use strict";
(() => {
  const SECONDS = 3;
  const body = document.body;
  if (!("live" in body.dataset)) return;
  const said = document.getElementById("said");

  async function follow(log) {
    // A long log comes in pieces; each says where the next one begins.
    for (;;) {
      const answer = await fetch(log.dataset.from + log.dataset.next);
      if (!answer.ok) return;
      const text = await answer.text();
      const next = answer.headers.get("X-Next");
      if (next === log.dataset.next) return;
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
      log.append(text);
      log.dataset.next = next;
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
  }

  function renew(page) {
    for (const old of document.querySelectorAll("[data-refresh]")) {
      const fresh = page.getElementById(old.id);
      // What somebody reads or has opened is left alone.
      if (!fresh || fresh.isEqualNode(old)) continue;
      if (old.contains(document.activeElement) || old.querySelector("details[open]")) continue;
      old.replaceWith(document.importNode(fresh, true));
    }
  }

  async function look() {
    let live = true;
    if (!document.hidden) {
      try {
        const address = new URL(location.href);
        address.searchParams.set("log", "no");
        const answer = await fetch(address);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        live = "live" in page.body.dataset;
        const log = document.querySelector("pre[data-next]");
        const here = document.getElementById("logs"), there = page.getElementById("logs");
        if (here && there && here.dataset.main !== there.dataset.main) {
          // The command's own log is there now, and takes the place of the build's.
          location.reload();
          return;
        }
        if (log) await follow(log);
        renew(page);
        said.textContent = live ? "" : "This has ended.";
      } catch (error) {
        said.textContent = "The local AzureML does not answer; trying again.";
      }
    }
    if (live) setTimeout(look, SECONDS * 1000);
  }

  for (const log of document.querySelectorAll("pre[data-next]")) log.scrollTop = log.scrollHeight;
  setTimeout(look, SECONDS * 1000);
})();
