// Elements made by hand: text is only ever put in as text, styles only through the CSSOM.

const SVG = "http://www.w3.org/2000/svg";

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function styled(node, styles) {
  for (const [name, value] of Object.entries(styles)) node.style.setProperty(name, value);
  return node;
}

const px = (value) => `${value}px`;
const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

let numbered = 0;
const unique = (name) => `regard-${name}-${++numbered}`;

// A token inside a sentence: isolated, so that its direction affects nothing around it.
const isolated = (token) => `\u2068${token}\u2069`;

// The direction of a text made of words: that of its first letter that has one. (dir="auto" ignores words that
// have a direction of their own, and is computed again for each word that is added.)
function direction(tokens) {
  for (const token of tokens) {
    const letter = token.match(/\p{L}/u);
    if (letter) return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(letter[0]) ? "rtl" : "ltr";
  }
  return "ltr";
}

const UNKNOWN = "unknown to the model";
const isUnknown = (view, side, index) => side === "source" && Boolean(view.data.unknown?.includes(index));

// A word that can be chosen. Its direction is its own: a Hebrew word does not affect a French one beside it.
function wordButton(view, side, index, text, matrix = 0) {
  const may = view.options.mayClick !== false;
  const node = el(may ? "button" : "span", { class: "regard-word", type: may ? "button" : null, dir: "auto", title: text, "data-side": side, "data-index": index }, text);
  if (isUnknown(view, side, index)) {
    node.classList.add("regard-unknown");
    node.title = `${text}: ${UNKNOWN}`;
  }
  if (view.selected[side].has(index)) {
    node.classList.add("regard-selected");
    if (may) node.setAttribute("aria-pressed", "true");
  }
  if (may) {
    node.addEventListener("click", () => view.tell("regard:word", { side, index, matrix }));
  }
  return node;
}

// One line of buttons of which one is chosen; arrow keys go from one to the next.
function choices(label, names, chosen, then) {
  const buttons = names.map((name, index) => {
    const on = index === chosen;
    const button = el("button", { class: "regard-choice", type: "button", role: "radio", dir: "auto", "aria-checked": String(on), tabindex: on ? 0 : -1 }, name);
    button.addEventListener("click", () => pick(index));
    return button;
  });
  const group = el("div", { class: "regard-choices", role: "radiogroup", "aria-label": label }, ...buttons);
  function pick(index) {
    buttons.forEach((button, other) => {
      button.setAttribute("aria-checked", String(other === index));
      button.tabIndex = other === index ? 0 : -1;
    });
    then(index);
  }
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    buttons[next].focus();
    pick(next);
  });
  return group;
}

function select(label, names, chosen, then) {
  const id = unique("select");
  const list = el("select", { id }, ...names.map((name, index) => el("option", { value: index, selected: index === chosen }, name)));
  list.addEventListener("change", () => then(Number(list.value)));
  return el("span", { class: "regard-select" }, el("label", { for: id }, label), list);
}

// A tip for the cell or word under the pointer or with the focus; also for screen readers.
class Tooltip {
  constructor() {
    this.node = el("div", { class: "regard-tip", role: "tooltip", hidden: true });
    this.spoken = el("div", { class: "regard-spoken", "aria-live": "polite" });
  }

  show(text, x, y, aloud) {
    this.node.textContent = text;
    this.node.hidden = false;
    const { width, height } = this.node.getBoundingClientRect();
    styled(this.node, {
      left: px(clamp(x + 12, 4, Math.max(4, innerWidth - width - 8))),
      top: px(y + 18 + height > innerHeight ? y - height - 10 : y + 18),
    });
    if (aloud) this.spoken.textContent = text;
  }

  hide() {
    this.node.hidden = true;
  }
}
