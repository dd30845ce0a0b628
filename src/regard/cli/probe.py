"""regard probe: what the layers of a trained encoder know of each word, in bits."""

import json
from pathlib import Path

from rich.table import Table
from typer import Option

from regard.analyses import Probed, codelengths_view, information, probing_data, read_conllu
from regard.analyses import probe as probed
from regard.analyses.probing import CODES, ProbingData
from regard.cli.app import app, console, plain_table
from regard.cli.common import Device, Run, check_picture, exit_on_error, open_run, progress_bar, save_picture
from regard.core.errors import UnknownNameError


@app.command()
@exit_on_error("regard probe")
def probe(
    run: Run,
    conllu: Path = Option(..., help="Sentences with what is said of their words (.gz too)."),
    task: str = Option("upos", help="upos, xpos (parts of speech) or deprel (relation to the head)."),
    code: str = Option("online", help="online or variational; or information: bits beyond the word's type."),
    hidden: int = Option(128, min=0, help="Width of the probe's hidden layer; 0 is a linear probe."),
    seed: int = Option(0, help="Of the order, the control task and the probe."),
    out: Path | None = Option(
        None, metavar="FILE", help="Draw the codelengths, too: probe.html, or .png, .svg, .pdf."
    ),
    as_json: bool = Option(False, "--json", help="One JSON object per layer."),
    device: Device = "auto",
) -> None:
    """Say how many bits the labels of words take, given the states of each layer of the encoder in DIR.

    Layer 0 is what the first layer reads. Compression is the length without any knowledge by that with the
    states. The control task gives each word type a label drawn at random: what a probe learns of that, it has
    memorised. Selectivity is accuracy less that on the control task.

    With --code information: H(T), the bits of a label; I(T; R), how many of them the states have; the gain,
    how many of these a vector of the word's type, the same in every sentence, does not have.

    Example: `regard probe runs/en-de --conllu en_ewt-ud-dev.conllu --task upos`
    """
    check_picture(out)
    if code not in (*CODES, "information"):
        raise UnknownNameError(f'no code "{code}". Known: {", ".join(CODES)}, information.')
    words = probing_data(open_run(run, device), list(read_conllu(conllu)), task)
    if code == "information":
        if out is not None:
            raise ValueError("--out draws codelengths: use --code online or variational.")
        show_information(words, task, hidden, seed, as_json)
        return
    found = []
    with progress_bar("probing", len(words.states)) as show:

        def listen(layer: int, share: float) -> None:
            show(layer + share)

        for one in probed(words, code=code, hidden=hidden, seed=seed, listen=listen):
            found.append(one)
            if as_json:
                print(json.dumps(as_dict(one, task, code, words)), flush=True)
    if not as_json:
        screen, uniform = console(100), found[0].real.uniform
        screen.print(
            f"{task} of {len(words.labels):,} words, {len(words.names)} labels; {code} code, in kbit"
        )
        screen.print(f"uniform {uniform / 1000:.1f}, by frequency {words.by_frequency / 1000:.1f}")
        screen.print(table(found))
    if out is not None:
        save_picture(codelengths_view(found, task, code, words), out, quiet=as_json)


def show_information(words: ProbingData, task: str, hidden: int, seed: int, as_json: bool) -> None:
    """Print the information in each layer, as a table or as JSON."""
    names = ("layer", "H(T)", "H(T | R)", "I(T; R)", "H(T | type)", "gain")
    drawn = plain_table(*names, right=names, no_wrap=True)
    with progress_bar("probing", len(words.states)) as show:
        for one in information(
            words, hidden=hidden, seed=seed, listen=lambda layer, share: show(layer + share)
        ):
            bits = (one.entropy, one.given_states, one.mutual, one.given_type, one.gain)
            drawn.add_row(str(one.layer), *(f"{value:.3f}" for value in bits))
            if as_json:
                print(
                    json.dumps({**vars(one), "mutual": one.mutual, "gain": one.gain, "task": task}),
                    flush=True,
                )
    if not as_json:
        console(100).print(f"{task} of {len(words.labels):,} words, {len(words.names)} labels; bits per word")
        console(100).print(drawn)


def as_dict(one: Probed, task: str, code: str, words: ProbingData) -> dict[str, object]:
    """A layer as JSON has it."""
    lengths = {"real": one.real, "control": one.control}
    return {
        "layer": one.layer,
        "task": task,
        "code": code,
        "uniform": one.real.uniform,
        "by_frequency": words.by_frequency,
        **{name: {**vars(length), "compression": length.compression} for name, length in lengths.items()},
        "selectivity": one.selectivity,
    }


def table(found: list[Probed]) -> Table:
    """Layers down: codelength, compression and accuracy, the same for the control task, selectivity."""
    names = ("layer", "code", "compression", "accuracy", "control", "compression", "accuracy", "selectivity")
    drawn = plain_table(*names, right=names, no_wrap=True)
    for one in found:
        cells = [str(one.layer)]
        for length in (one.real, one.control):
            cells += [f"{length.bits / 1000:.1f}", f"{length.compression:.2f}", f"{length.accuracy:.3f}"]
        drawn.add_row(*cells, f"{one.selectivity:.3f}")
    return drawn
