"""regard check: a model of transformers against itself, softmax through regard and its own attention."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from regard.cli.app import app, fail, say
from regard.cli.common import Threads, exit_on_error
from regard.core.bridges import bridge_named, prefix_of


@app.command()
@exit_on_error("regard check")
def check(
    model: Annotated[
        Path, Argument(metavar="hf:PATH", help="A folder, a .gguf file, or a name in the cache.")
    ],
    as_json: bool = Option(False, "--json", help="One JSON object per line: what, difference, note."),
    tokens: int = Option(64, min=1, help="How many are generated."),
    seed: int = Option(0, help="Of the tokens that are drawn."),
    threads: Threads = None,
) -> None:
    """Compare a model of transformers with itself: softmax through regard, and its own attention.

    Padded and not, cached and not, beams, static caches; and whether padding or the future is seen. Outputs
    may differ by 1e-5 of the largest (at least of 1), generated texts in no token: otherwise the exit code
    is 1.

    Examples:

    - `regard check hf:models/bert-base`

    - `regard check hf:SmolLM2-135M.gguf`
    """
    if prefix_of(model) != "hf":
        fail(f"check is for models of transformers: hf:PATH is needed; got {model}.")
    bridge_named("hf")  # says what to install, if it must
    from regard.bridges.huggingface.checking import check_model
    from regard.bridges.huggingface.opening import load_model

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    found = []
    for one in check_model(load_model(Path(str(model).partition(":")[2])), seed, tokens):
        found.append(one)
        if as_json:
            print(json.dumps(vars(one)), flush=True)
        else:
            difference = "–" if one.difference is None else f"{one.difference:.1e}"
            verdict = "" if one.holds else "  differs"
            say(f"{one.what:32}{difference:>10}{verdict}{'  ' if one.note else ''}{one.note}")
    wrong = [one.what for one in found if not one.holds]
    if not as_json:
        which = "it agrees" if len(found) == 1 else f"all {len(found)} agree"
        agree = f"{which}: this model answers through regard as it does by itself"
        say(f"{len(wrong)} of {len(found)} differ: {', '.join(wrong)}" if wrong else agree)
    if wrong:
        raise Exit(1)
