"""regard explain: a score for each word of a text, by one method or several."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text as Line
from typer import Option

from regard.cli.app import app, console, fail, plain_table, say
from regard.cli.common import Device, Input, Run, check_picture, exit_on_error, open_run, save_picture
from regard.cli.draw import bar
from regard.core.tokens import UNK
from regard.explanations import METHODS, Explanation, explain_texts
from regard.explanations.explained_texts import explanations_view
from regard.views.shown_text import shown

WAYS = {"delete": "delete", "zero": "zero", "unknown": UNK}
NUMBER, BAR = 9, 12  # characters of a score and of a bar
AGAINST = "░"  # of the bar of a negative score


@app.command()
@exit_on_error("regard explain")
def explain(
    run: Run,
    text: Input,
    method: list[str] | None = Option(
        None, "--method", help="attention, rollout, flow, gradient, …; may be given several times."
    ),
    second: str | None = Option(
        None,
        metavar="TEXT",
        help="The second text, for a model for pairs; the question about a picture; a caption other than the "
        "run's own.",
    ),
    label: str | None = Option(None, help="The class to explain; the predicted one if it is not given."),
    target: str | None = Option(
        None,
        help="What a language model may say next, to be explained; of a captioner, a word of its caption, "
        "instead of all.",
    ),
    against: str | None = Option(None, help="What else it might say: --target against this."),
    by: str = Option("delete", help="How leave_one_out removes a word: delete, zero or unknown."),
    baseline: str | None = Option(
        None, help="What stands in the place of a deleted region of a picture: grey (if not given) or blur."
    ),
    hold_attention: bool = Option(False, "--hold-attention", help="Gradients with the weights as constants."),
    out: Path | None = Option(None, metavar="FILE", help="words.html, or .png, .svg, .pdf."),
    as_json: bool = Option(False, "--json", help="One JSON object per method: method, label, words, scores."),
    device: Device = "auto",
) -> None:
    """Score the words of a text: how much each contributes to what the classifier in DIR predicts.

    Of a picture regions are scored; of a captioner for each word of the caption, given the words before it.

    A score below 0 is evidence against it. Scores of different methods are not on one scale: compare their
    order.

    Examples:

    - `regard explain runs/sst --text "a gripping , witty film" --method rollout`

    - `regard explain runs/sst --text "a gripping , witty film" --method attention --method leave_one_out`

    - `regard explain runs/fashion --image shoe.png --method leave_one_out --out regions.png`

    - `regard explain runs/scenes --image scene.png --target circle --method leave_one_out --baseline blur`

    - `regard explain hf:PATH --text "The keys to the cabinet" --target " are" --against " is"`
    """
    if by not in WAYS:
        fail(f'no way "{by}". Known: {", ".join(WAYS)}.')
    if against is not None and target is None:
        fail("--against is what --target is compared with: give --target, too.")
    check_picture(out)
    names = list(dict.fromkeys(method or ["attention"]))
    options = {name: _options(METHODS[name], by, hold_attention) for name in names}
    system = open_run(run, device)
    inputs, asked = [system.input(text, second)], {}
    if target is not None:
        asked, label = system.asked_about(target, against)
    if baseline is not None:
        asked = {**asked, **system.without_regions_as(baseline)}
    found = [
        one
        for name in names
        for one in explain_texts(system, inputs, method=name, label=label, asked=asked, **options[name])
    ]
    if out is not None:
        save_picture(explanations_view(found, label, system, inputs[0]), out, quiet=True)
    if as_json:
        for one in found:
            print(json.dumps(vars(one), ensure_ascii=False))
        return
    screen = console()
    said = [one for one in found if one.method == names[0]]
    screen.print(Line("  ".join(f"{one.label}  {one.probability:.3f}" for one in said)))
    for table in _tables(found, screen.width, system.units.removesuffix("s")):
        screen.print(table)
    if any(score < 0 for one in found for score in one.scores):
        what = label or (found[0].label if len(said) == 1 else "the word")
        say(f"{AGAINST} below 0: evidence against {what}", screen)
    if out is not None:
        say(out)


def _options(method: Any, by: str, hold_attention: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"by": WAYS[by]} if method.needs == "outputs" else {}
    return {**options, "hold_attention": True} if hold_attention and method.needs == "gradients" else options


def _tables(found: list[Explanation], width: int, unit: str) -> Iterator[Table]:
    """Words down, methods across, as many as there is room for; the others in tables of their own."""
    words = [Line(shown(word)) for word in found[0].words]
    room = width - max(word.cell_len for word in words) - 2
    across = max(1, room // (NUMBER + BAR + 3))
    several = len({one.method for one in found}) < len(found)  # decisions, as the words of a caption
    for k in range(0, len(found), across):
        table = plain_table(unit)
        for one in found[k : k + across]:
            table.add_column(f"{shown(one.label)}, {one.method}" if several else one.method, no_wrap=True)
        for row, word in enumerate(words):
            table.add_row(word, *(_cell(one.scores[row], one.scores) for one in found[k : k + across]))
        yield table


def _cell(score: float, scores: list[float]) -> Line:
    share = abs(score) / (max(map(abs, scores)) or 1.0)
    drawn = bar(share, BAR) if score >= 0 else AGAINST * max(1, round(share * BAR))
    return Line(f"{score:>{NUMBER}.3g} {drawn}", style="red" if score < 0 else "")
