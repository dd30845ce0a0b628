"""regard probe: what the layers of a trained encoder know of each word, in bits."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from regard.cli.app import app, console, fail
from regard.cli.common import Device, progress_bar, resolve_device
from regard.cli.heads import draw
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError

if TYPE_CHECKING:
    from regard.analyses import Codelength, Probed
    from regard.analyses.probing import ProbingData

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Conllu = Annotated[Path, Option(help="Sentences with what is said of their words (.gz too).")]
Task = Annotated[str, Option(help="upos, xpos (parts of speech) or deprel (relation to the head).")]
Code = Annotated[str, Option(help="online or variational.")]
Hidden = Annotated[int, Option(min=0, help="Width of the probe's hidden layer; 0 is a linear probe.")]
Seed = Annotated[int, Option(help="Of the order, the control task and the probe.")]
Out = Annotated[
    Path | None, Option(metavar="FILE", help="Draw the codelengths, too: probe.html, or .png, .svg, .pdf.")
]
AsJson = Annotated[bool, Option("--json", help="One JSON object per layer.")]


@app.command()
def probe(
    run: Run,
    conllu: Conllu,
    task: Task = "upos",
    code: Code = "online",
    hidden: Hidden = 128,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Say how many bits the labels of words take, given the states of each layer of the encoder in DIR.

    Layer 0 is what the first layer reads. Compression is the length without any knowledge by that with the
    states. The control task gives each word type a label drawn at random: what a probe learns of that, it has
    memorised. Selectivity is accuracy less that on the control task.

    Example: `regard probe runs/en-de --conllu en_ewt-ud-dev.conllu --task upos`
    """
    from regard.analyses import probe as probed
    from regard.analyses import probing_data, read_conllu
    from regard.runs.load import open_system
    from regard.views.picture import check_file

    try:
        if out is not None:
            check_file(out)
        words = probing_data(open_system(run, resolve_device(device)), list(read_conllu(conllu)), task)
        layers = len(words.states)
        with progress_bar("probing", layers) as listen:
            found = []
            for one in probed(
                words, code=code, hidden=hidden, seed=seed, listen=lambda layer, share: listen(layer + share)
            ):
                found.append(one)
                if as_json:
                    print(json.dumps(as_dict(one, task, code, words)), flush=True)
    except (RunError, SettingsError, WeightsError, UnknownNameError, ImportError, ValueError) as error:
        fail(error)
    if not as_json:
        screen, n = console(100), len(words.labels)
        uniform, counted = found[0].real.uniform, words.by_frequency
        screen.print(f"{task} of {n:,} words, {len(words.names)} labels; {code} code, in kbit")
        screen.print(f"uniform {uniform / 1000:.1f}, by frequency {counted / 1000:.1f}")
        screen.print(table(found))
    if out is not None:
        draw(drawn(found, task, code, words), out, as_json)


def as_dict(one: "Probed", task: str, code: str, words: "ProbingData") -> dict[str, object]:
    """A layer as JSON has it."""

    def told(length: "Codelength") -> dict[str, float]:
        return {**vars(length), "compression": length.compression}

    about = {"layer": one.layer, "task": task, "code": code, "uniform": one.real.uniform}
    return {
        **about,
        "by_frequency": words.by_frequency,
        "real": told(one.real),
        "control": told(one.control),
        "selectivity": one.selectivity,
    }


def table(found: "list[Probed]") -> Table:
    """Layers down: codelength, compression and accuracy, the same for the control task, selectivity."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    names = ("layer", "code", "compression", "accuracy", "control", "compression", "accuracy", "selectivity")
    for name in names:
        drawn.add_column(name, no_wrap=True, justify="right")
    for one in found:
        cells = [str(one.layer)]
        for length in (one.real, one.control):
            cells += [f"{length.bits / 1000:.1f}", f"{length.compression:.2f}", f"{length.accuracy:.3f}"]
        drawn.add_row(*cells, f"{one.selectivity:.3f}")
    return drawn


def drawn(found: "list[Probed]", task: str, code: str, words: "ProbingData") -> Any:
    """Codelengths by layer, of the task and of its control."""
    import torch

    from regard.views import bars

    lengths = {
        task: torch.tensor([one.real.bits / 1000 for one in found]),
        "control task": torch.tensor([one.control.bits / 1000 for one in found]),
    }
    caption = (
        f"Bits for the labels of {len(words.labels):,} words, given the states of a layer; layer 0 is what "
        f"the first one reads. Without any knowledge {found[0].real.uniform / 1000:.1f} kbit, by frequency "
        f"{words.by_frequency / 1000:.1f}. What is saved on the control task is memorised."
    )
    layers = [str(one.layer) for one in found]
    return bars(lengths, layers, unit="kbit", title=f"{task} by layer, {code} code", caption=caption)
