"""regard swap: another map in a model of transformers, with a temperature for each head."""

import json
from pathlib import Path
from typing import Annotated, Any

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from typer import Argument, Option

from regard.cli.app import app, fail, say
from regard.cli.common import Threads, exit_on_error, progress_bar
from regard.core.bridges import bridge_named, prefix_of
from regard.core.counting import counted
from regard.core.files import write_text

COLUMNS = (
    TextColumn("{task.description:16}"),
    BarColumn(),
    TextColumn("{task.completed:.0f}/{task.total:.0f}"),
)


@app.command()
@exit_on_error("regard swap")
def swap(
    model: Annotated[
        Path, Argument(metavar="hf:PATH", help="A folder, a .gguf file, or a name in the cache.")
    ],
    out: Path = Option(..., metavar="DIR", help="A new folder: the map, temperatures, and where PATH is."),
    map: str = Option("entmax15", help="Any row map of `regard maps`."),
    temperature: float = Option(1.0, min=1e-3, help="Scores are divided by it, in all heads."),
    fit: Path | None = Option(None, metavar="FILE", help="Text to fit one temperature per head to."),
    test: Path | None = Option(None, metavar="FILE", help="Other text to say perplexities of."),
    window: int = Option(256, min=2, help="Tokens that are read at once."),
    steps: int = Option(100, min=0, help="Of gradient descent; 0: each head is matched with softmax."),
    tokens: int = Option(32_768, min=2, help="The first so many tokens of each file are used."),
    learn_alpha: bool = Option(
        False, "--learn-alpha", help="With --fit: learn α of each head, too, from 1.5 on."
    ),
    tune: bool = Option(False, "--tune", help="With --fit: tune the weights of q and k, too."),
    full: bool = Option(False, "--full", help="Copy the weights into DIR, too."),
    seed: int = Option(0, help="Of the windows that are drawn."),
    threads: Threads = None,
) -> None:
    """Give a model of transformers another map, with a temperature for each head.

    A trained model expects softmax: with another map its scores need another temperature. With --fit one is
    learned for each head of a language model, and perplexities are said of softmax, of the map before and
    after, with the mean support. --learn-alpha learns α of each head with it, from softmax's 1 to sparsemax's
    2; --tune the weights of q and k. DIR is itself a PATH: hf:DIR.

    Examples:

    - `regard swap hf:SmolLM2 --map entmax15 --fit valid.txt --test test.txt --out smol-entmax15`

    - `regard swap hf:smollm2.gguf --fit valid.txt --learn-alpha --tune --steps 300 --out smol-alpha`

    - `regard swap hf:models/bert --map sparsemax --temperature 3 --out bert-sparsemax`
    """
    if prefix_of(model) != "hf":
        fail(f"swap is for models of transformers: hf:PATH is needed; got {model}.")
    if fit is None and (learn_alpha or tune):
        fail("--learn-alpha and --tune are fitted to a text: give --fit FILE.")
    if out.exists():
        fail(f"{out} is there already; choose another --out.")
    bridge_named("hf")  # says what to install, if it must
    from regard.bridges.huggingface.opening import (
        SWAPPED,
        TUNED,
        bars_on_terminals,
        copy_preparation,
        load_model,
        load_tokenizer,
    )
    from regard.swap import swap as swap_maps

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    base = Path(str(model).partition(":")[2])
    theirs = load_model(base)
    said: dict[str, Any] = {"base": str(base.resolve() if base.exists() else base), "map": map}
    if fit is None:
        from regard.bridges.huggingface.model_attentions import attentions_of, head_count

        swap_maps(theirs, map, temperature=temperature)
        every = attentions_of(theirs).items()
        said["temperatures"] = {path: [temperature] * head_count(one) for path, one in every}
    else:
        said |= fitted(
            theirs, load_tokenizer(base), map, fit, test, most=tokens, window=window, steps=steps, seed=seed,
            learn_alpha=learn_alpha, tune=tune,
        )  # fmt: skip
    out.mkdir(parents=True)
    if full:
        with bars_on_terminals():
            theirs.save_pretrained(out)
        copy_preparation(base, out)
    elif said.get("tuned"):
        from safetensors.torch import save_file

        from regard.bridges.huggingface.head_descent import queries_and_keys

        save_file(dict[str, Any](queries_and_keys(theirs, list(said["temperatures"]))), out / TUNED)
    write_text(out / SWAPPED, json.dumps(said, indent=1) + "\n")
    say(f"hf:{out}")


def fitted(
    theirs: Any, tokenizer: Any, map: str, fit: Path, test: Path | None, *, most: int, **options: Any
) -> dict[str, Any]:  # fmt: skip
    """Fit temperatures with a bar, say what came of it, and return what is kept of it."""
    from dataclasses import asdict

    from regard.bridges.huggingface.fitting import fit_temperatures
    from regard.bridges.huggingface.foreign_tokenizer import first_tokens

    if not theirs.can_generate() or theirs.config.is_encoder_decoder:
        fail(f"--fit is for language models; {type(theirs).__name__} is none. Give --temperature.")

    text = first_tokens(tokenizer, fit, most)
    other = None if test is None else first_tokens(tokenizer, test, most)
    with progress_bar("softmax", columns=(*COLUMNS, TimeElapsedColumn())) as show:
        found = fit_temperatures(
            theirs, text, map, test=other, **options,
            say=lambda what, done, of: show(done, of, description=what),
        )  # fmt: skip
    lines = {
        "softmax": found.softmax,
        f"{map}, temperature 1": found.before,
        f"{map}, heads matched": found.matched,
        f"{map}, fitted": found.after,
    }
    for name, value in lines.items():
        say(f"perplexity {value:8.2f}  {name}")
    say(
        f"{found.after / found.softmax:.3f} × softmax on {counted(found.tokens, 'token')}; "
        f"mean support {found.support:.1f} of at most {found.window:,} keys, "
        f"{found.support_share:.1%} of those a query sees"
    )
    if found.alphas:
        every = [alpha for one in found.alphas.values() for alpha in one]
        say(f"α from {min(every):.2f} to {max(every):.2f}, on average {sum(every) / len(every):.2f}")
    return asdict(found)
