// Weights as they were sent: lists where there are few, bfloat16 in base64 where there are many.

const unpacked = new WeakMap();

function weightsOf(matrix) {
  if (!unpacked.has(matrix)) unpacked.set(matrix, matrix.weights ? Float32Array.from(matrix.weights.flat()) : unpack(matrix.packed));
  return unpacked.get(matrix);
}

function unpack(text) {
  const bytes = atob(text);
  const bits = new Uint32Array(bytes.length / 2);
  for (let k = 0; k < bits.length; k++) {
    bits[k] = ((bytes.charCodeAt(2 * k) | (bytes.charCodeAt(2 * k + 1) << 8)) << 16) >>> 0;
  }
  return new Float32Array(bits.buffer);
}

// Three digits; exactly 0 is written 0, and nothing else is.
function number(w) {
  if (w === 0) return "0";
  const text = Math.abs(w) >= 0.001 ? String(Number(Math.abs(w).toPrecision(3))) : Math.abs(w).toExponential(1).replace("-", "−");
  return w < 0 ? `−${text}` : text;
}

// Two decimals without the 0 before them, for cells; nothing if they would be 0: the colour says that it is small.
function short(w) {
  const text = Math.abs(w).toFixed(2);
  return text === "0.00" ? "" : `${w < 0 ? "−" : ""}${text.replace(/^0/, "").replace(/\.00$/, "")}`;
}

// Half the size: of four neighbours the one farthest from 0, so that a single weight is never lost.
function halved({ m, n, weights }) {
  const rows = Math.ceil(m / 2);
  const columns = Math.ceil(n / 2);
  const half = new Float32Array(rows * columns);
  for (let i = 0; i < m; i++) {
    const to = (i >> 1) * columns;
    for (let j = 0, from = i * n; j < n; j++, from++) {
      const at = to + (j >> 1);
      if (Math.abs(weights[from]) > Math.abs(half[at])) half[at] = weights[from];
    }
  }
  return { m: rows, n: columns, weights: half };
}
