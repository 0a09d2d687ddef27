// Draws the curves of a comparison so that values can be read and parts enlarged. Without scripts there are the server's drawings.
"use strict";
(() => {
  const options = document.getElementById("options");
  if (!options || typeof uPlot === "undefined") return;
  const HEIGHT = 260;
  const DASHES = [[], [8, 3], [2, 3], [10, 3, 2, 3], [5, 5]];
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const charts = new Map(), rounds = new Map();
  // What changes the drawing alone.
  const DRAWN = ["x", "smooth", "log"];

  // What the form asks for; a field that is empty or 0 is left out, as in the server's addresses.
  function asked() {
    const found = new URLSearchParams();
    for (const [name, value] of new FormData(options)) {
      if (name !== "run" && value !== "" && value !== "0") found.append(name, value);
    }
    return found;
  }

  function shape(figure, curves, byStep) {
    const axis = { stroke: () => colour("--text"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--soft"), width: 1 } };
    return {
      width: figure.clientWidth - 24,
      height: HEIGHT,
      scales: { x: { time: false }, y: { distr: asked().get("log") === "yes" ? 3 : 1 } },
      cursor: { sync: { key: "compare", scales: ["x", null] } },
      axes: [{ ...axis, label: byStep ? "step" : "seconds after the first value", labelSize: 18 }, { ...axis, size: 64 }],
      series: [
        { label: byStep ? "step" : "seconds" },
        ...curves.map(one => ({
          label: `${one.number + 1}. ${one.name}`,
          stroke: () => colour(`--run-${one.number}`),
          width: 2,
          dash: DASHES[Math.floor(one.number / 2)],
          spanGaps: false,
          value: (_, value) => value === null || value === undefined ? "–" : String(Number(value.toPrecision(6))),
        })),
      ],
    };
  }

  async function draw(figure) {
    const address = new URL(figure.dataset.curves, location.href);
    for (const [name, value] of asked()) if (DRAWN.includes(name)) address.searchParams.append(name, value);
    const round = rounds.set(figure, (rounds.get(figure) ?? 0) + 1).get(figure);
    const answer = await fetch(address);
    // Of several answers only the last one that was asked for counts.
    if (!answer.ok || round !== rounds.get(figure)) return;
    const { curves, by_step: byStep } = await answer.json();
    const log = asked().get("log") === "yes";
    const tables = curves.map(one => [one.x, one.y]);
    if (!tables.some(([, ys]) => ys.some(y => y !== null))) return;
    // A null of a curve interrupts it; a position that only other curves have does not.
    const data = uPlot.join(tables, tables.map(() => [0, 2]));
    const key = JSON.stringify([log, byStep, curves.map(one => one.number)]);
    const before = charts.get(figure);
    if (before && before.key === key) {
      // What was enlarged stays so.
      const { min, max } = before.chart.scales.x;
      const whole = min === before.chart.data[0][0] && max === before.chart.data[0].at(-1);
      before.chart.setData(data, whole);
      if (!whole) before.chart.redraw();
      return;
    }
    if (before) before.chart.destroy();
    const chart = new uPlot(shape(figure, curves, byStep), data, figure.querySelector(".drawn"));
    charts.set(figure, { chart, key });
    figure.querySelector(".still").hidden = true;
    document.getElementById("zoom").hidden = false;
  }

  const figures = [...document.querySelectorAll("figure[data-curves]")];
  const drawAll = () => Promise.all(figures.map(draw));

  options.addEventListener("change", event => {
    if (!DRAWN.includes(event.target.name)) {
      if (event.target.name !== "run") options.requestSubmit();
      return;
    }
    const address = new URL(location.href);
    for (const name of DRAWN) address.searchParams.delete(name);
    for (const [name, value] of asked()) if (DRAWN.includes(name)) address.searchParams.append(name, value);
    history.replaceState(null, "", address);
    drawAll();
  });

  document.addEventListener("renewed", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(one => one.chart.redraw()));
  const sizes = new ResizeObserver(entries => {
    for (const { target } of entries) charts.get(target)?.chart.setSize({ width: target.clientWidth - 24, height: HEIGHT });
  });
  figures.forEach(figure => sizes.observe(figure));
  drawAll();
})();
