// The text alternative: every picture's numbers as a table, made when it is opened.

const WHOLE = 4096; // weights that are shown all
const TOP = 8; // else of each row these many, the largest
const PAGE = 200; // rows at a time

function tables(view, parts) {
  const details = el("details", { class: "regard-table" }, el("summary", {}, "The numbers as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    for (const part of parts()) details.append(part.m * part.n <= WHOLE ? whole(part) : largest(part));
  });
  return details;
}

const heading = (text, scope) => el("th", { scope, dir: "auto" }, text);
const framed = (title, ...rows) => el("div", { class: "regard-wide", tabindex: 0, role: "region", "aria-label": title || "weights" },
  el("table", {}, title ? el("caption", { dir: "auto" }, title) : null, ...rows));

function whole({ m, n, weights, rows, columns, title }) {
  const head = el("thead", {}, el("tr", {}, el("td"), ...columns.map((text) => heading(text, "col"))));
  const body = el("tbody");
  for (let i = 0; i < m; i++) {
    const cells = Array.from({ length: n }, (_, j) => el("td", {}, number(weights[i * n + j])));
    body.append(el("tr", {}, heading(rows[i], "row"), ...cells));
  }
  return framed(title, head, body);
}

function largest({ m, n, weights, rows, columns, title }) {
  const names = Array.from({ length: Math.min(TOP, n) }, (_, k) => heading(`${k + 1}.`, "col"));
  const body = el("tbody");
  const table = framed(`${title ? `${title}: ` : ""}the ${Math.min(TOP, n)} largest weights of each row`, el("thead", {}, el("tr", {}, el("td"), ...names)), body);
  const more = el("button", { type: "button", class: "regard-choice" }, "more rows");
  let next = 0;
  function append() {
    for (const end = Math.min(m, next + PAGE); next < end; next++) {
      const row = weights.subarray(next * n, (next + 1) * n);
      const cells = strongest(row, TOP).map((j) => el("td", { dir: "auto" }, row[j] ? `${isolated(columns[j])} ${number(row[j])}` : ""));
      body.append(el("tr", {}, heading(rows[next], "row"), ...cells));
    }
    more.hidden = next >= m;
  }
  more.addEventListener("click", append);
  append();
  return el("div", {}, table, more);
}

// The places of the k largest of these weights, largest first; equal ones in their order.
function strongest(row, k) {
  const best = [];
  for (let j = 0; j < row.length; j++) {
    if (best.length === k && Math.abs(row[j]) <= Math.abs(row[best[k - 1]])) continue;
    let at = best.length;
    while (at > 0 && Math.abs(row[best[at - 1]]) < Math.abs(row[j])) at--;
    best.splice(at, 0, j);
    if (best.length > k) best.pop();
  }
  return best;
}
