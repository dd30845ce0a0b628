"""regard maps: one vector of scores through every map."""

import json
import math
from pathlib import Path

import torch
from torch import Tensor
from typer import Argument, Option

from regard.cli.app import app, console, fail, say
from regard.cli.common import exit_on_error, save_picture
from regard.cli.draw import table
from regard.maps import MAPS


@app.command(context_settings={"ignore_unknown_options": True})  # −1 is a score, not an option
@exit_on_error("regard maps")
def maps(
    scores: list[str] | None = Argument(None, metavar="SCORES...", show_default=False),
    only: list[str] | None = Option(
        None, "--map", metavar="NAME", help="Only this map; may be given several times."
    ),
    plot: Path | None = Option(None, "--plot", metavar="FILE", help="Also draw it: .png, .svg or .pdf."),
    as_json: bool = Option(False, "--json", help="Print a list of objects: map, weights, support."),
) -> None:
    """Show one vector of scores through every map. A score of -inf is a key that may not be looked at.

    Examples:

    - `regard maps 2 1 0.1`

    - `regard maps -1 2 -inf --map softmax --map sparsemax --plot maps.svg`
    """
    theta = numbers(scores or [])
    weights, labels = through(theta, only), [f"{score:g}" for score in theta.tolist()]
    if plot is not None:
        from regard.views import bars

        save_picture(bars(weights, labels), plot, quiet=True)
    if as_json:
        rows = [{"map": m, "weights": p.tolist(), "support": int((p > 0).sum())} for m, p in weights.items()]
        print(json.dumps(rows, indent=2))
        return
    out = console()
    out.print(table(weights, labels, out.width))
    if plot is not None:
        say(f"\n{plot}")


def numbers(scores: list[str]) -> Tensor:
    """The scores (n,) as they were typed, or a complaint."""
    if not scores:
        fail("give at least one score, for example: regard maps 2 1 0.1.")
    theta = []
    for text in scores:
        if text.startswith("--"):
            fail(f"no option {text}.")
        try:
            number = float(text)
        except ValueError:
            fail(f"a score must be a number; got {text!r}. Put spaces between scores.")
        if math.isnan(number) or number == math.inf:
            fail(f"a score must be finite, or -inf for a key that may not be looked at; got {text}.")
        theta.append(number)
    return torch.tensor(theta, dtype=torch.float64)


def through(theta: Tensor, only: list[str] | None = None) -> dict[str, Tensor]:
    """The weights (n,) of scores (n,) by every row map, or by the ones named."""
    chosen = [MAPS[name] for name in only] if only else [m for m in MAPS.values() if m.acts_on == "row"]
    for entry in chosen:
        if entry.acts_on == "matrix":
            fail(f"{entry.name} acts on a whole matrix of scores, so one vector cannot go through it.")
    return {entry.name: entry(theta) for entry in chosen}
