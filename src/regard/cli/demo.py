"""regard demo: the maps on a vector and on a small attention."""

from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor
from typer import Option

from regard.attention import attend
from regard.cli.app import app, complain, console
from regard.cli.draw import column, table
from regard.cli.maps import labels, through

SCORES = [1.1, 1.0, 0.8, 0.1, -1.0]
SOURCE = ["le", "chat", "noir", "dort", "sur", "le", "lit"]
TARGET = ["the", "black", "cat", "sleeps", "on", "the", "bed"]
ALIGNED = [0, 2, 1, 3, 4, 5, 6]  # the source word each target word stands for
Out = Annotated[Path, Option(metavar="DIR", help="Where the pictures go.")]


@app.command()
def demo(out: Out = Path("out")) -> None:
    """Show the maps on a vector and on a small attention, in the terminal and as pictures.

    Example: `regard demo --out out`
    """
    screen, theta = console(), torch.tensor(SCORES, dtype=torch.float64)
    weights = through(theta)
    screen.print("[bold]One vector of scores through every map[/] (a weight of exactly 0 is written 0)\n")
    screen.print(table(weights, labels(theta), screen.width))
    query, keys = words()
    screen.print("\n[bold]The same attention under three maps[/] (· is a weight of exactly 0)")
    seen = {name: attend(query, keys, map=name).weights for name in ("softmax", "entmax15", "sparsemax")}
    screen.print("")
    screen.print(" " * 8 + "".join(f"{name:<{len(SOURCE) + 4}}" for name in seen))
    for i, word in enumerate(TARGET):
        rows = ("".join(map(column, p[i].tolist())) for p in seen.values())
        screen.print(f"{word:<8}" + "".join(f"{row:<{len(SOURCE) + 4}}" for row in rows))
    try:
        paths = pictures(weights, theta, seen, out)
    except (ImportError, OSError) as error:
        complain(error)
    screen.print("\nPictures: " + ", ".join(map(str, paths)), soft_wrap=True)
    screen.print(
        "Next: [bold]regard maps 3 1 1 --map softmax --map sparsemax[/], or the ten lines in README.md"
    )


def words(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Queries (m, d) like the keys (n, d) of the words they stand for, and noise: nothing is trained."""
    noise = torch.Generator().manual_seed(seed)
    keys = torch.randn(len(SOURCE), 16, generator=noise)
    query = 0.7 * keys[ALIGNED] + torch.randn(len(TARGET), 16, generator=noise)
    return query, keys


def pictures(weights: dict[str, Tensor], theta: Tensor, seen: dict[str, Tensor], out: Path) -> list[Path]:
    """The two halves of the demo as files."""
    from regard.views import bars, heat_map, save

    return [
        save(bars(weights, labels(theta)), out / "maps.png"),
        save(heat_map(seen, SOURCE, TARGET), out / "attention.png"),
    ]
