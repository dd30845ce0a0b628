"""Results as tables and curves. A result is a plain dictionary here, as `--json` prints it."""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
Curves = dict[str, list[tuple[int, float]]]
SHORT = {"forward": "fwd", "forward + backward": "fwd + bwd"}
NOTE = {True: "yes", False: "no", None: ""}


def ratio(x: float) -> str:
    """Two decimals, three where the ratio is small, and one digit where it is tiny."""
    return f"{x:.2f}" if x >= 0.1 else f"{x:.3f}" if x >= 0.001 else f"{x:.1g}"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def cells(row: Row) -> list[str]:
    """One result as the cells of a table with HEADINGS."""
    size = " × ".join(f"{count:,}" for count in (row["rows"], row["n"]) if count is not None)
    amount = duration(row["seconds"]) if row["mebibytes"] is None else f"{row['mebibytes']:.0f} MiB"
    support = "" if row["support"] is None else f"{row['support']:.1f}"
    limit = "" if row["limit"] is None else f"≤ {ratio(row['limit'])}"
    what, mode = row["what"].removesuffix(f", {row['mode']}"), SHORT.get(row["mode"], "")
    found = [what, mode, size, row["scale"] or "", support, row["against"], amount]
    return [*found, ratio(row["ratio"]), limit, NOTE[row["held"]]]


HEADINGS = ["what", "mode", "rows × n", "scores", "support", "against", "ours", "ratio", "limit", "held"]


def details(rows: Iterable[Row]) -> str:
    """Every result, in Markdown."""
    return markdown(HEADINGS, (cells(row) for row in rows))


def summary(rows: Iterable[Row]) -> str:
    """One line per claim, in Markdown: the least and the greatest ratio found, and whether the limit held."""
    claims: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        claims.setdefault((row["claim"], row["against"]), []).append(row)
    lines = []
    for (claim, against), found in claims.items():
        least, most = (ratio(f(row["ratio"] for row in found)) for f in (min, max))
        limit, aim = found[0]["limit"], found[0]["aim"]
        bound = (
            "" if limit is None else f"{ratio(limit)} ×" + ("" if aim is None else f" (aim: {ratio(aim)})")
        )
        held = None if limit is None else all(row["held"] for row in found)
        measured = f"{least} ×" if least == most else f"{least} to {most} ×"
        lines.append([claim, against, measured, bound, NOTE[held]])
    return markdown(["what", "against", "measured", "at most", "held"], lines)


def markdown(headings: list[str], lines: Iterable[list[str]]) -> str:
    """A table in Markdown."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def curves(rows: Iterable[Row]) -> dict[str, Curves]:
    """Seconds and mebibytes against n, on normal scores: ours and the other's, for `views.growth`.

    What was measured at one n alone is left out, unless all was.
    """
    found: dict[str, dict[str, dict[int, float]]] = {"seconds": {}, "mebibytes": {}}
    for row in rows:
        if row["n"] is None or row["scale"] not in ("normal", None):
            continue
        unit = "seconds" if row["mebibytes"] is None else "mebibytes"
        other = ", ".join(filter(None, (row["against"], row["mode"])))
        for name, key in ((row["what"], unit), (other, f"against_{unit}")):
            found[unit].setdefault(name, {}).setdefault(row["n"], row[key])
    several = any(len(at) > 1 for named in found.values() for at in named.values())
    return {
        unit: {name: sorted(at.items()) for name, at in named.items() if len(at) > 1 or not several}
        for unit, named in found.items()
    }
