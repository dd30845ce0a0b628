// Heat maps: painters of cells, joined with a grid. SVG where cells are few, canvas where they are many.

const FEW = 2500;
const ROOMY = 30; // pixels of a cell that holds its number

class SvgPainter {
  constructor(view, { m, n, weights, ramp, under = null, marked = [], ellipses = [] }) {
    this.node = svg("svg", { class: "regard-cells", viewBox: `0 0 ${n} ${m}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    if (under) this.node.append(svg("image", { href: under, width: n, height: m, preserveAspectRatio: "none" }));
    this.numbers = svg("g", { class: "regard-numbers" });
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        const w = weights[i * n + j];
        const fill = css(ramp, w);
        if (fill === null) continue;
        this.node.append(svg("rect", { x: j, y: i, width: 1, height: 1, fill, "fill-opacity": under ? 0.65 : null }));
        if (under || !short(w)) continue;
        const text = svg("text", { x: j + 0.5, y: i + 0.5 }, short(w));
        this.numbers.append(styled(text, { fill: inkOn(ramp, w) }));
      }
    }
    for (const [j, i] of [...(view.data.links || []), ...marked]) {
      this.node.append(svg("rect", { class: "regard-link", x: j, y: i, width: 1, height: 1 }));
    }
    for (const { mean: [row, column], axes, radii } of ellipses) { // (row, column) of mean and axes, in shares of the picture
      for (const r of radii) {
        const at = [n * r * axes[1][0], m * r * axes[0][0], n * r * axes[1][1], m * r * axes[0][1], n * column, m * row];
        this.node.append(svg("circle", { class: "regard-density", r: 1, transform: `matrix(${at.join(" ")})` }));
      }
    }
    this.node.append(this.numbers);
  }

  attach(grid) {
    grid.body.prepend(this.node);
  }

  paint(sight, cell) {
    this.numbers.classList.toggle("regard-away", cell < ROOMY);
  }
}

class CanvasPainter {
  constructor(view, { m, n, weights, ramp }) {
    this.node = el("canvas", { class: "regard-canvas", "aria-hidden": "true" });
    this.ramp = ramp;
    this.levels = [{ m, n, weights }]; // each half the size of the one before
  }

  attach(grid) {
    this.grid = grid;
    grid.body.prepend(this.node);
  }

  level(cell) {
    let k = 0;
    for (; cell * 2 ** k < 1 && Math.min(this.levels[k].m, this.levels[k].n) > 1; k++) {
      if (k + 1 === this.levels.length) this.levels.push(halved(this.levels[k]));
    }
    return { size: cell * 2 ** k, factor: 2 ** k, ...this.levels[k] };
  }

  // The cells in sight, one pixel each, then stretched onto the canvas without smoothing.
  paint(sight, cell) {
    const sharp = devicePixelRatio || 1;
    const [wide, high] = [Math.ceil(sight.width * sharp), Math.ceil(sight.height * sharp)];
    if (this.node.width !== wide || this.node.height !== high) [this.node.width, this.node.height] = [wide, high];
    styled(this.node, { width: px(sight.width), height: px(sight.height), left: px(this.grid.leftWidth), top: px(this.grid.topHeight) });
    const { size, factor, m, n, weights } = this.level(cell);
    const [i0, j0] = [Math.floor(sight.i0 / factor), Math.floor(sight.j0 / factor)];
    const [i1, j1] = [Math.min(m, Math.ceil(sight.i1 / factor)), Math.min(n, Math.ceil(sight.j1 / factor))];
    const pen = this.node.getContext("2d");
    pen.clearRect(0, 0, wide, high);
    if (i1 <= i0 || j1 <= j0) return;
    const pixels = coloured(weights, n, i0, i1, j0, j1, this.ramp);
    const sheet = el("canvas", { width: j1 - j0, height: i1 - i0 });
    sheet.getContext("2d").putImageData(pixels, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(sheet, (j0 * size - sight.x) * sharp, (i0 * size - sight.y) * sharp, (j1 - j0) * size * sharp, (i1 - i0) * size * sharp);
  }
}

function coloured(weights, n, i0, i1, j0, j1, ramp) {
  const pixels = new ImageData(j1 - j0, i1 - i0);
  const { bytes, place } = ramp;
  let to = 0;
  for (let i = i0; i < i1; i++) {
    for (let j = j0; j < j1; j++, to += 4) {
      const at = place(weights[i * n + j]);
      if (at < 0) continue;
      pixels.data[to] = bytes[at];
      pixels.data[to + 1] = bytes[at + 1];
      pixels.data[to + 2] = bytes[at + 2];
      pixels.data[to + 3] = 255;
    }
  }
  return pixels;
}

// A heat map: {m, n, weights, rows, columns, rowSide, columnSide, matrix, title, under}.
function heatMap(view, spec) {
  const { m, n, weights } = spec;
  const ramp = rampOf(view.data);
  const painter = new (m * n <= FEW ? SvgPainter : CanvasPainter)(view, { ...spec, ramp });
  const say = spec.say || ((i, j) => `${isolated(spec.rows[i])} → ${isolated(spec.columns[j])}: ${number(weights[i * n + j])}`);
  const label = `${spec.title || "heat map"}: ${m} by ${n} weights. Arrow keys go from cell to cell; a table follows.`;
  const sides = { row: spec.rowSide || "target", column: spec.columnSide || "source" };
  const grid = new Grid(view, { m, n, rows: spec.words === false ? null : spec.rows, columns: spec.words === false ? null : spec.columns,
    painter, say, sides, label, matrix: spec.matrix || 0, least: spec.least, most: spec.most, pick: spec.pick });
  if (isBlack(view)) grid.body.classList.add("regard-black");
  const node = el("div", { class: "regard-panel" }, spec.title ? el("h3", { dir: "auto" }, spec.title) : null, grid.node);
  return { node, grid, m, n, weights, rows: spec.rows, columns: spec.columns, title: spec.title, begin: () => grid.begin() };
}

const isBlack = (view) => view.data.ramp === "black_to_white";
