"""Numbers as text: a matrix with its name, its shape and its rows."""

from collections.abc import Sequence

from torch import Tensor


def numbers(row: Tensor, decimals: int = 2, zero: str | None = None) -> list[str]:
    """A row (n,) with so many decimals; what is exactly 0 may look otherwise."""
    shown = [f"{x + 0.0:.{decimals}f}" if x or zero is None else zero for x in row.tolist()]
    return [x.removeprefix("-") if not x.strip("-0.") else x for x in shown]  # no -0.00


def table(
    name: str, x: Tensor, down: Sequence[str] = (), across: Sequence[str] = (), decimals: int = 2
) -> str:
    """A matrix (m, n) under its name and shape, with words beside its rows and above its columns."""
    rows = [numbers(row, decimals) for row in x]
    cell = max(len(text) for text in (*across, *(number for row in rows for number in row)))
    wide = max(map(len, down), default=0)
    lines = [f"{name}   ({x.shape[0]}, {x.shape[1]})"]
    if across:
        lines.append(" ".join([" " * wide, *(f"{word:>{cell}}" for word in across)]))
    for i, row in enumerate(rows):
        lines.append(
            " ".join([f"{down[i] if down else '':>{wide}}", *(f"{number:>{cell}}" for number in row)])
        )
    return "\n".join(line.rstrip() for line in lines)


def blocks(*tables: str) -> str:
    """Tables under each other."""
    return "\n\n".join(tables)
