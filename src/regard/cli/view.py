"""regard view: the attention of a run while it answers one text, as a picture in a file."""

import re
from pathlib import Path

from typer import Option

from regard.cli.app import app, fail, say
from regard.cli.common import Device, Input, Run, check_picture, exit_on_error, open_run, save_picture
from regard.inspection.description import check_inspectable
from regard.inspection.inspected import OutOfRange, inspect
from regard.inspection.pictures import draw
from regard.views.shown_text import shown


@app.command()
@exit_on_error("regard view")
def view(
    run: Run,
    text: Input,
    out: Path = Option(..., metavar="FILE", help="weights.html, or .png, .svg, .pdf."),
    kind: str | None = Option(
        None,
        help="heat_map, lines, words, steps, heads, layers or image; memory: the heads of a Turing machine "
        "over time; context: the sentences before, of a translator that reads them. Without it, as fits.",
    ),
    layer: int | None = Option(None, min=1, help="From 1; the last one if it is not given."),
    head: int | None = Option(None, min=1, help="From 1; the mean of the heads if it is not given."),
    method: str | None = Option(
        None, help="Colour words by attention (if it is not given), rollout, gradient, …"
    ),
    second: str | None = Option(None, metavar="TEXT", help="The second text, for runs that take two."),
    attention: str | None = Option(
        None, help="cross, encoder or decoder; of one text: answer or text. Without it, from answer to text."
    ),
    without_sink: bool = Option(
        False, "--without-sink", help="Leave out the weight on the first token, for language models."
    ),
    links: str | None = Option(
        None,
        metavar="0-0 1-2 …",
        help="Known links, source word – target word, from 0: outlined in a heat map, as by Koehn & Knowles.",
    ),
    device: Device = "auto",
) -> None:
    """Draw the attention weights of the run in DIR while it answers a text, and print the answer.

    Weights between an answer of several words and the text are a heat map; those of a class over the words of
    the text colour these words, and so does any explanation. The other kinds then show self-attention.

    Examples:

    - `regard view runs/demo --text "the film begins at half past eight" --out weights.html`

    - `regard view runs/demo --text "on 3 May" --kind lines --layer 2 --head 1 --out lines.svg`

    - `regard view runs/sst --text "a gripping , witty film" --method leave_one_out --out words.html`

    - `regard view hf:opus-mt-en-de --text "The keys" --attention encoder --kind heads --out heads.html`

    - `regard view runs/demo --text "at half past eight" --links "0-0 1-1 2-1 3-2" --out boxes.html`

    - `regard view runs/fashion --image shoe.png --out weights.png`

    - `regard view hf:PATH --text "The keys to the cabinet" --without-sink --out weights.html`
    """
    check_picture(out)
    outlined = [] if links is None else _links(links)
    system = open_run(run, device)
    check_inspectable(system)
    if kind is not None and kind in system.own_views:
        if outlined:
            fail(f"--links outlines links in a heat map; --kind {kind} has none.")
        save_picture(system.own_views[kind](text), out)
        return
    found = inspect(system, text, second=second, name=run.resolve().name)
    chosen = {name: number and number - 1 for name, number in (("layer", layer), ("head", head))}
    try:
        save_picture(
            draw(
                found,
                kind,
                method=method,
                sink=not without_sink,
                attention=attention,
                links=outlined,
                **chosen,
            ),
            out,
            quiet=True,
        )
    except OutOfRange as error:
        fail(f"--{error.name} must be from 1 to {error.count}; got {error.got + 1}.")
    say(shown(found.title))
    say(out)


def _links(text: str) -> list[tuple[int, int]]:
    found = [re.fullmatch(r"(\d{1,6})[-p](\d{1,6})", part) for part in text.split()]
    if not found or not all(found):
        fail(f'--links must be like "0-0 1-2", source word – target word, counted from 0; got {text!r}.')
    return [(int(one[1]), int(one[2])) for one in found if one]
