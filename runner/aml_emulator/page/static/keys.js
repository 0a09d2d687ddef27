// Keys for lists: j and k walk through the rows, x marks one, / leads to the filter. They can be turned off.
"use strict";
(() => {
  const hint = document.getElementById("keys");
  const rows = () => [...document.querySelectorAll("main tbody tr")].filter(row => row.querySelector("th[scope=row] a"));
  const filter = document.querySelector("form[role=search] input[name=text]")
    ?? document.querySelector("form.filter input:not([type=hidden]), form.filter select");
  if (!rows().length && !filter) return;
  const turned = document.getElementById("keys-on");
  const SETTING = "aml-keys";
  turned.checked = localStorage.getItem(SETTING) !== "off";
  turned.addEventListener("change", () => localStorage.setItem(SETTING, turned.checked ? "on" : "off"));
  hint.hidden = false;

  function walk(by) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex(row => row.contains(document.activeElement));
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by));
    const link = all[next].querySelector("th[scope=row] a");
    link.focus();
    link.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !turned.checked) return;
    const inRow = document.activeElement.closest("main tbody tr");
    const typing = document.activeElement.matches("input:not([type=checkbox]), select, textarea");
    if (typing) {
      if (event.key === "Escape") document.activeElement.blur();
      return;
    }
    const acts = {
      j: () => walk(1),
      k: () => walk(-1),
      // The arrows scroll the page, unless a row has the focus.
      ArrowDown: inRow && (() => walk(1)),
      ArrowUp: inRow && (() => walk(-1)),
      x: inRow && (() => inRow.querySelector("input[type=checkbox]")?.click()),
      "/": filter && (() => filter.focus()),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();
