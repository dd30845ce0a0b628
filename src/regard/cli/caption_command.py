"""regard caption: a sentence about each picture."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer import Argument, Option

from regard.cli.app import app
from regard.cli.common import (
    Device,
    Run,
    Threads,
    answer_lines,
    check_picture,
    exit_on_error,
    open_run,
    save_picture,
)


@app.command()
@exit_on_error("regard caption")
def caption(
    run: Run,
    images: list[str] = Argument(
        None,
        metavar="IMAGE",
        help="Pictures; without them, file names on standard input.",
        show_default=False,
    ),
    out: Path | None = Option(
        None,
        metavar="FILE",
        help="Also draw the picture word by word: .png, .svg, .pdf or .html; one picture.",
    ),
    beam: int | None = Option(None, min=1, help="Width of the beam; 1 is greedy."),
    as_json: bool = Option(
        False, "--json", help="One JSON object per line: text, log_prob, pieces, grid, weights."
    ),
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Write a sentence about each picture with the run in DIR, one line for each.

    Examples:

    - `regard caption runs/scenes image.png`

    - `regard caption runs/scenes image.png --out words.png`
    """
    from regard.inspection import draw, inspect

    check_picture(out)
    system = open_run(run, device, None, threads)
    system.caption([])  # or says that it does not
    if out is not None and len(images or ()) != 1:
        raise ValueError("--out draws one picture: name one.")

    def answer(block: list[str]) -> Iterator[str]:
        found = iter(system.caption([line for line in block if line.strip()], beam=beam))
        for line in block:
            yield "" if not line.strip() else _shown(next(found), as_json)

    answer_lines(answer, images or None)
    if out is not None:
        save_picture(draw(inspect(system, images[0], name=run.resolve().name)), out)


def _shown(answer: Any, as_json: bool) -> str:
    return json.dumps(answer.facts, ensure_ascii=False) if as_json else str(answer.said)
