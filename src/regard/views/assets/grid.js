// A matrix with words along two sides that stay in sight while it is scrolled, panned and zoomed.
//
// Only the words in sight are elements, and a painter draws only the cells in sight, so size costs little.
// spec: {m, n, rows, columns (words, or null for none), painter, say(i, j), sides: {row, column}, matrix}

const SMALLEST = 18; // pixels of a cell whose word can be read
const MANY = 150; // words beyond which the whole is shown first
const LETTERS = 14; // pixels of a line of small letters
const EDGE = LETTERS / 2; // that the word of a thin row or column reaches beyond it

class Grid {
  constructor(view, spec) {
    Object.assign(this, { view, spec, cell: 1, at: null });
    this.leftWidth = spec.rows ? widest(spec.rows, 150) : 0;
    this.topHeight = spec.columns ? widest(spec.columns, 130) : 0;
    this.top = el("div", { class: "regard-top" });
    this.left = el("div", { class: "regard-left" });
    this.corner = el("div", { class: "regard-corner" });
    this.cursor = el("div", { class: "regard-cursor", hidden: true });
    this.body = el("div", { class: "regard-body" }, this.cursor);
    this.inner = el("div", { class: "regard-inner" }, this.corner, this.top, this.left, this.body);
    this.scroller = el("div", { class: "regard-scroll", tabindex: 0, role: "application", "aria-label": spec.label }, this.inner);
    this.scroller.grid = this;
    this.node = el("div", { class: "regard-grid" }, this.scroller, this.buttons());
    this.words = { row: new Map(), column: new Map() };
    spec.painter.attach(this);
    this.scroller.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.later()).observe(this.scroller);
    byPointer(this);
    byKeyboard(this);
  }

  // To be called when the node is in the page: sizes are known only then.
  begin() {
    const { m, n, least = SMALLEST, most = 44 } = this.spec;
    if (Math.max(m, n) > MANY) this.whole();
    else this.zoom(clamp(Math.floor(Math.min(this.across(), Math.max(this.across() / 4, this.down()))), least, most));
    return this;
  }

  // Pixels of a cell with which all columns, or all rows, are in sight.
  across() {
    return Math.max(60, this.scroller.clientWidth - this.leftWidth - EDGE - 1) / this.spec.n;
  }

  down() {
    return Math.max(60, Math.min(innerHeight * 0.8, 832) - this.topHeight - 20) / this.spec.m;
  }

  whole() {
    this.zoom(Math.min(this.across(), this.down()));
  }

  zoom(cell, x = 0, y = 0) {
    const { m, n } = this.spec;
    const before = this.cell;
    const [left, top] = [this.scroller.scrollLeft, this.scroller.scrollTop];
    this.cell = clamp(cell, 0.05, 64);
    styled(this.inner, {
      "grid-template-columns": `${px(this.leftWidth)} ${px(n * this.cell)} ${px(EDGE)}`,
      "grid-template-rows": `${px(this.topHeight)} ${px(m * this.cell)} ${px(EDGE)}`,
      width: px(this.leftWidth + n * this.cell + EDGE),
    });
    const scale = this.cell / before;
    this.scroller.scrollLeft = (left + x) * scale - x;
    this.scroller.scrollTop = (top + y) * scale - y;
    this.paint();
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  // What is in sight: first and last row and column, and the scroll position.
  sight() {
    const { m, n } = this.spec;
    const { scrollLeft: x, scrollTop: y, clientWidth, clientHeight } = this.scroller;
    const width = Math.min(clientWidth - this.leftWidth, n * this.cell);
    const height = Math.min(clientHeight - this.topHeight, m * this.cell);
    return {
      x, y, width: Math.max(1, width), height: Math.max(1, height),
      j0: clamp(Math.floor(x / this.cell), 0, n), j1: clamp(Math.ceil((x + width) / this.cell), 0, n),
      i0: clamp(Math.floor(y / this.cell), 0, m), i1: clamp(Math.ceil((y + height) / this.cell), 0, m),
    };
  }

  paint() {
    const sight = this.sight();
    if (this.spec.columns) this.label("column", this.top, sight.j0, sight.j1);
    if (this.spec.rows) this.label("row", this.left, sight.i0, sight.i1);
    this.spec.painter.paint(sight, this.cell);
    this.mark();
  }

  label(axis, holder, from, to) {
    const words = this.words[axis];
    const texts = axis === "row" ? this.spec.rows : this.spec.columns;
    const every = Math.max(1, Math.ceil(LETTERS / this.cell));
    const wanted = (k) => k >= from && k < to && k % every === 0;
    for (const [k, node] of words) {
      if (!wanted(k) && node !== document.activeElement) {
        node.remove();
        words.delete(k);
      }
    }
    for (let k = from - (from % every); k < to; k += every) {
      if (!wanted(k)) continue;
      if (!words.has(k)) {
        const node = wordButton(this.view, this.spec.sides[axis], k, texts[k], this.spec.matrix);
        if (node.tagName === "BUTTON") node.tabIndex = -1;
        words.set(k, node);
        holder.append(node);
      }
      const size = Math.max(this.cell, LETTERS);
      const [start, line] = [px((k + 0.5) * this.cell - size / 2), { "line-height": px(size) }]; // its middle is that of the cells
      styled(words.get(k), axis === "row" ? { top: start, height: px(size), ...line } : { left: start, width: px(size), ...line });
    }
    const stop = words.get(this.at ? (axis === "row" ? this.at.i : this.at.j) : -1) || words.values().next().value;
    for (const node of words.values()) if (node.tagName === "BUTTON") node.tabIndex = node === stop ? 0 : -1;
  }

  buttons() {
    const make = (text, label, act) => {
      const button = el("button", { class: "regard-zoom", type: "button", "aria-label": label, title: label }, text);
      button.addEventListener("click", act);
      return button;
    };
    const half = () => [this.scroller.clientWidth / 2, this.scroller.clientHeight / 2];
    return el("div", { class: "regard-tools" },
      make("−", "smaller cells", () => this.zoom(this.cell / 1.4, ...half())),
      make("+", "larger cells", () => this.zoom(this.cell * 1.4, ...half())),
      make("⤢", "the whole heat map", () => this.whole()));
  }

  // The cursor goes to a cell: by the pointer without scrolling, by the keyboard so that it is in sight.
  go(i, j, event = null) {
    this.at = { i, j };
    if (!event) this.reveal(i, j);
    this.mark();
    const box = this.body.getBoundingClientRect();
    const [x, y] = event ? [event.clientX, event.clientY] : [box.left + (j + 0.5) * this.cell, box.top + (i + 0.5) * this.cell];
    this.view.tip.show(this.spec.say(i, j), x, y, !event);
    for (const twin of this.twins || []) if (twin !== this) { twin.at = this.at; twin.mark(); }
  }

  leave() {
    this.view.tip.hide();
    for (const grid of this.twins || [this]) grid.cursor.hidden = true;
  }

  reveal(i, j) {
    const { x, y, width, height } = this.sight();
    const [left, top] = [j * this.cell, i * this.cell];
    if (left < x) this.scroller.scrollLeft = left;
    else if (left + this.cell > x + width) this.scroller.scrollLeft = left + this.cell - width;
    if (top < y) this.scroller.scrollTop = top;
    else if (top + this.cell > y + height) this.scroller.scrollTop = top + this.cell - height;
    this.paint();
  }

  mark() {
    if (!this.at) return;
    this.cursor.hidden = false;
    const size = px(Math.max(this.cell, 3));
    styled(this.cursor, { left: px(this.at.j * this.cell), top: px(this.at.i * this.cell), width: size, height: size });
    for (const [axis, k] of [["row", this.at.i], ["column", this.at.j]]) {
      for (const [index, node] of this.words[axis]) node.classList.toggle("regard-here", index === k);
    }
  }
}

// Pixels that the longest of these words needs, within reason; of many the first thousands are measured.
function widest(words, most) {
  const pen = el("canvas").getContext("2d");
  pen.font = "13px system-ui, sans-serif";
  let width = 0;
  for (const word of words.slice(0, 5000)) {
    width = Math.max(width, pen.measureText(word).width);
    if (width > most) return most;
  }
  return Math.ceil(width) + 14;
}
