"""regard answer: a question about a text, answered by a run, with the place the answer comes from."""

import json
from typing import Any

from rich.text import Text
from typer import Argument, Option

from regard.cli.app import app, console, say, table_of
from regard.cli.common import Device, exit_on_error
from regard.cli.task_options import ByTask, given, opened
from regard.core.errors import RunError


@app.command(cls=ByTask, context_settings={"ignore_unknown_options": True}, options_metavar="[OPTIONS]")
@exit_on_error("regard answer")
def answer(
    arguments: list[str] = Argument(
        ..., metavar="DIR [OPTIONS OF ITS TASK]", help="The folder of a trained run."
    ),
    as_json: bool = Option(False, "--json", help="One object: answer, and what it comes from."),
    device: Device = "auto",
) -> None:
    """Answer a question about a text with the run in DIR, and show where the answer comes from.

    Which text and how it is given depends on the task of the run, see below.

    Examples:

    - `regard answer runs/babi --story story.txt --question "Where is John?"`

    - `regard answer runs/reader --passage page.txt --question "Who wrote it?" --json`
    """
    folder, system, values = opened(arguments, device)
    if system.task.Asking is None:
        raise RunError(f"{folder} holds a {system.task.makes}, which answers no questions.")
    reply = system.reply(given(system.task.Asking, values, system.task.makes))
    if as_json:
        print(json.dumps(reply.facts, ensure_ascii=False))
    else:
        show(reply)


def show(reply: Any) -> None:
    """The answer, the notes, the text with what stands out, and the table."""
    for line in (reply.said, *reply.notes):
        say(line)
    screen = console()
    if reply.text:
        screen.print()
        if screen.is_terminal:
            text = Text(reply.text)
            for start, end in reply.marked:
                text.stylize("bold reverse", start, end)
            screen.print(text)
        else:  # no colours in a file: brackets
            say(bracketed(reply.text, reply.marked))
    if reply.rows:
        screen.print()
        screen.print(table_of(reply))


def bracketed(text: str, marked: tuple[tuple[int, int], ...]) -> str:
    """A text with 【 and 】 around the characters from start to end of each mark."""
    for start, end in sorted(marked, reverse=True):
        text = f"{text[:start]}【{text[start:end]}】{text[end:]}"
    return text
