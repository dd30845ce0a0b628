"""regard view: where a run looks while it translates or classifies one text, in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.cli.app import app, complain, console
from regard.cli.train import chosen
from regard.cli.view_classifier import WHOLE, classified
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError

if TYPE_CHECKING:
    from regard.serve import Run

KINDS = ["heat_map", "lines", "words", "steps", "heads", "layers"]
Folder = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Text = Annotated[str, Option(metavar="SENTENCE", help="What the run reads.")]
Out = Annotated[Path, Option(metavar="FILE", help="map.html, or .png, .svg, .pdf.")]
Kind = Annotated[
    str | None, Option(help=f"{', '.join(KINDS)}; without it heat_map, or of a classifier words.")
]
Method = Annotated[
    str | None,
    Option(help="Of a classifier: colour words by attention (if it is not given), rollout, gradient, …"),
]
Second = Annotated[str | None, Option(metavar="TEXT", help="The second text, for a classifier of pairs.")]
Layer = Annotated[int | None, Option(min=1, help="From 1; the last one if it is not given.")]
Head = Annotated[int | None, Option(min=1, help="From 1; the mean of the heads if it is not given.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def view(
    run: Folder,
    text: Text,
    out: Out,
    kind: Kind = None,
    layer: Layer = None,
    head: Head = None,
    method: Method = None,
    second: Second = None,
    device: Device = "auto",
) -> None:
    """Draw where the run in DIR looks while it answers a text, and print the answer.

    The answer of a translator is the translation; that of a classifier is the class and its probability, and
    the picture shows the words of the text, coloured by weight or by another explanation.

    Examples:

    - `regard view runs/demo --text "the film begins at half past eight" --out map.html`

    - `regard view runs/demo --text "on 3 May" --kind lines --layer 2 --head 1 --out lines.svg`

    - `regard view runs/sst --text "a gripping , witty film" --method leave_one_out --out words.html`
    """
    from regard.serve import ClassifierRun, open_runs
    from regard.views.picture import check_file
    from regard.views.shown_text import shown

    if kind is not None and kind not in KINDS:
        complain(f'no kind "{kind}". Known: {", ".join(KINDS)}.')
    if kind in WHOLE and (layer is not None or head is not None):
        complain(f"--kind {kind} shows all layers: --layer and --head are for the others.")
    try:
        check_file(out)
        (found,) = open_runs([run], chosen(device)).values()
        if isinstance(found, ClassifierRun):
            said, picture = classified(found, text, second, method, kind or "words", layer, head)
        elif method is not None or second is not None:
            complain(f"{found.name} is a translator: --method and --second are for classifiers.")
        else:
            said, picture = translated(found, text, kind or "heat_map", layer, head)
        file = picture.save(out)
    except (RunError, SettingsError, WeightsError, UnknownNameError, ImportError, ValueError) as error:
        complain(error)
    except OSError as error:
        complain(f"{out} cannot be written: {error.strerror or error}.")
    screen = console()
    screen.print(shown(said), soft_wrap=True, markup=False)
    screen.print(str(file), soft_wrap=True, markup=False)


def translated(run: "Run", text: str, kind: str, layer: int | None, head: int | None) -> tuple[str, Any]:
    """The translation of a text, and the view of it; layer and head from 1."""
    from regard import views
    from regard.serve import look
    from regard.serve.asked import CannotAsk
    from regard.serve.caption import caption

    looked, make = look(run, text), getattr(views, kind)
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
    picture = make(weights, looked.source, looked.answer_words, title=looked.answer, caption=says)
    return looked.answer, picture
