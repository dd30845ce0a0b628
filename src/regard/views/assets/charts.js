// Bars of one vector under several maps, and curves against n.

function drawBars(view) {
  const { labels, rows } = view.data;
  const n = labels.length;
  const most = Math.max(...rows.flatMap((row) => row.weights), 0) || 1;
  const panels = rows.map((row) => {
    const picture = svg("svg", { class: "regard-bars", viewBox: `0 0 ${n} 1`, preserveAspectRatio: "none", "aria-hidden": "true" });
    row.weights.forEach((w, j) => {
      if (w === 0) return;
      const bar = svg("rect", { x: j + 0.1, width: 0.8, y: 1 - Math.max(w / most, 0.01), height: Math.max(w / most, 0.01) });
      bar.append(svg("title", {}, `${labels[j]}: ${number(w)}`));
      picture.append(bar);
    });
    const names = el("div", { class: "regard-under" }, ...labels.map((label) => el("span", { dir: "auto", title: label }, label)));
    return el("div", { class: "regard-chart" }, el("h3", { dir: "auto" }, row.name), picture, names);
  });
  const weights = Float32Array.from(rows.flatMap((row) => row.weights));
  const parts = () => [{ m: rows.length, n, weights, rows: rows.map((row) => row.name), columns: labels, title: view.data.unit || "weight" }];
  return { node: el("div", { class: "regard-charts" }, ...panels), begin: () => {}, parts };
}

const DASHES = ["", "6 4", "2 3"];

function drawGrowth(view) {
  const panels = view.data.panels.map((panel) => {
    const points = panel.curves.flatMap((curve) => curve.points);
    const scale = (axis, length) => {
      const logs = points.map((point) => Math.log(point[axis]));
      const [low, high] = [Math.min(...logs), Math.max(...logs)];
      return (value) => (high > low ? ((Math.log(value) - low) / (high - low)) * length : length / 2);
    };
    const [x, y] = [scale(0, 300), scale(1, 180)];
    const picture = svg("svg", { class: "regard-curves", viewBox: "-50 -14 380 240", "aria-hidden": "true" });
    panel.curves.forEach((curve, k) => {
      const path = curve.points.map(([n, amount], at) => `${at ? "L" : "M"}${x(n).toFixed(1)} ${(190 - y(amount)).toFixed(1)}`).join("");
      picture.append(svg("path", { d: path, "stroke-dasharray": DASHES[k % 3], class: `regard-curve-${k % 3}` }));
      for (const [n, amount] of curve.points) picture.append(svg("circle", { cx: x(n), cy: 190 - y(amount), r: 3 }, svg("title", {}, `${curve.name}, n = ${n}: ${number(amount)}`)));
      const [n, amount] = curve.points[curve.points.length - 1];
      picture.append(svg("text", { x: x(n) - 4, y: 182 - y(amount), "text-anchor": "end" }, curve.name));
    });
    for (const n of new Set(points.map((point) => point[0]))) picture.append(svg("text", { x: x(n), y: 212, "text-anchor": "middle" }, String(n)));
    for (const amount of [Math.min(...points.map((p) => p[1])), Math.max(...points.map((p) => p[1]))]) {
      picture.append(svg("text", { x: -8, y: 194 - y(amount), "text-anchor": "end" }, number(amount)));
    }
    return el("div", { class: "regard-chart" }, el("h3", {}, panel.unit), picture);
  });
  const parts = () => view.data.panels.flatMap((panel) => panel.curves.map((curve) => ({
    m: 1, n: curve.points.length, weights: Float32Array.from(curve.points.map((p) => p[1])),
    rows: [panel.unit], columns: curve.points.map((p) => `n = ${p[0]}`), title: curve.name,
  })));
  return { node: el("div", { class: "regard-charts" }, ...panels), begin: () => {}, parts };
}
