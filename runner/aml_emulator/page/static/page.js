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

  // Makes `old` the same as `fresh` by changing what differs and nothing else: focus, marks, places of scrolling, and what
  // is selected or opened are those of elements, which stay.
  function settle(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.dataset?.key !== fresh.dataset?.key) {
      old.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name) && !kept(old, name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !kept(old, name)) old.setAttribute(name, value);
    // Rows are known by their keys: those that are gone make room, and new ones come between those that stay.
    const keys = new Set([...fresh.children].map(child => child.dataset.key));
    for (const child of [...old.children]) if (child.dataset.key && !keys.has(child.dataset.key)) child.remove();
    const keyed = new Map([...old.children].filter(child => child.dataset.key).map(child => [child.dataset.key, child]));
    let at = old.firstChild;
    for (const child of fresh.childNodes) {
      const same = keyed.get(child.dataset?.key);
      if (same && same !== at) {
        old.insertBefore(same, at);
        settle(same, child);
      } else if (!same && (!at || at.dataset?.key || child.dataset?.key)) {
        old.insertBefore(document.importNode(child, true), at);
      } else {
        const next = at.nextSibling;
        settle(at, child);
        at = next;
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function kept(element, name) {
    return name === "open" && element.nodeName === "DETAILS";
  }

  function renew(page) {
    for (const old of document.querySelectorAll("[data-refresh]")) {
      const fresh = page.getElementById(old.id);
      if (fresh) settle(old, fresh);
    }
    document.dispatchEvent(new Event("renewed"));
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
