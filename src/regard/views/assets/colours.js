// Colours of weights: the ramps of ramps.py in the reader's scheme. What is exactly 0 has none.

const darkScheme = matchMedia("(prefers-color-scheme: dark)");

function scheme() {
  return document.documentElement.dataset.scheme || (darkScheme.matches ? "dark" : "light");
}

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// 256 colours as bytes, filled in between those of the table.
function ladder(colours) {
  const stops = colours.map(rgb);
  const steps = new Uint8Array(256 * 3);
  for (let k = 0; k < 256; k++) {
    const at = (k / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c++) steps[3 * k + c] = Math.round(stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]));
  }
  return steps;
}

// A ramp gives for a weight the place of its colour in `bytes`, or -1 where the paper shows.
function rampOf(data) {
  if (data.ramp === "black_to_white") {
    const bytes = ladder(["#000000", "#ffffff"]);
    return { bytes, place: (w) => 3 * Math.round(255 * clamp(w / data.most, 0, 1)) };
  }
  const { even, against } = RAMPS[scheme()];
  const bytes = new Uint8Array(1536);
  bytes.set(ladder(even));
  bytes.set(ladder(against), 768);
  return {
    bytes,
    place: (w) => (w === 0 ? -1 : 3 * Math.round(255 * Math.min(Math.abs(w) / data.most, 1)) + (w < 0 ? 768 : 0)),
  };
}

// Where on the ramp a word of n is whose weight is this share of 1: `ramps.place`, with the sign of the share.
function place(share, n) {
  return Math.sign(share) * Math.min(Math.abs(share), 1) ** (n > 1 ? Math.log(EQUAL) / -Math.log(n) : 1);
}

function css(ramp, w) {
  const at = ramp.place(w);
  return at < 0 ? null : `rgb(${ramp.bytes[at]}, ${ramp.bytes[at + 1]}, ${ramp.bytes[at + 2]})`;
}

// Black or white, whichever is read more easily on this weight's colour; on paper the ink.
function inkOn(ramp, w) {
  const at = ramp.place(w);
  if (at < 0) return "var(--regard-ink)";
  const [r, g, b] = [0, 1, 2].map((c) => {
    const part = ramp.bytes[at + c] / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
