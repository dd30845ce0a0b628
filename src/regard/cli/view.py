"""regard view: where a run looks while it answers one sentence, in a file."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.app import app, complain, console
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

KINDS = ["heat_map", "lines", "words", "steps", "heads", "layers"]
WHOLE = ("heads", "layers")  # these show all layers at once
Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Text = Annotated[str, Option(metavar="SENTENCE", help="What the run reads.")]
Out = Annotated[Path, Option(metavar="FILE", help="map.html, or .png, .svg, .pdf.")]
Kind = Annotated[str, Option(help=f"{', '.join(KINDS)}.")]
Layer = Annotated[int | None, Option(min=1, help="From 1; the last one if it is not given.")]
Head = Annotated[int | None, Option(min=1, help="From 1; the mean of the heads if it is not given.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def view(
    run: Run,
    text: Text,
    out: Out,
    kind: Kind = "heat_map",
    layer: Layer = None,
    head: Head = None,
    device: Device = "auto",
) -> None:
    """Draw where the run in DIR looks while it translates a sentence, and print the translation.

    Examples:

    - `regard view runs/demo --text "the film begins at half past eight" --out map.html`

    - `regard view runs/demo --text "on 3 May" --kind lines --layer 2 --head 1 --out lines.svg`
    """
    from regard.serve import look, open_runs
    from regard.views.picture import check_file
    from regard.views.text import shown

    if kind not in KINDS:
        complain(f'no kind "{kind}". Known: {", ".join(KINDS)}.')
    if kind in WHOLE and (layer is not None or head is not None):
        complain(f"--kind {kind} shows all layers: --layer and --head are for the others.")
    try:
        check_file(out)
        (found,) = open_runs([run], chosen(device)).values()
        looked = look(found, text)
        file = drawn(looked, kind, layer, head).save(out)
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    except OSError as error:
        complain(f"{out} cannot be written: {error.strerror or error}.")
    screen = console()
    screen.print(shown(looked.answer), soft_wrap=True, markup=False)
    screen.print(str(file), soft_wrap=True, markup=False)


def drawn(looked: Any, kind: str, layer: int | None, head: int | None) -> Any:
    """The view of an answer; layer and head from 1."""
    from regard import views
    from regard.serve.caption import caption
    from regard.serve.looked import CannotAsk

    run, make = looked.run, getattr(views, kind)
    if not looked.weights:
        missing = "has no attention" if not run.cross else "looked at nothing: there are no words"
        raise CannotAsk(f"{run.name} {missing}.")
    for name, number, count in (("--layer", layer, len(run.cross)), ("--head", head, run.heads)):
        if number is not None and number > count:
            raise CannotAsk(f"{name} must be from 1 to {count}; got {number}.")
    at = (len(run.cross) if layer is None else layer) - 1
    which = None if head is None else head - 1
    if kind in WHOLE:
        weights: Any = looked.weights
        says = (
            f"Source–target attentions of {run.name}: score {run.score}, map {run.map}; from pieces to words."
        )
    else:
        weights = looked.map_of(at, which)
        says = caption(run, at, which)
    return make(weights, looked.source, looked.answer_words, title=looked.answer, caption=says)
