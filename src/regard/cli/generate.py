"""regard generate: a language model writes on from a prompt."""

import json
import sys
from typing import TYPE_CHECKING

from typer import Option

from regard.cli.app import app, console, fail, plain_table, remark
from regard.cli.common import Device, Run, Threads, exit_on_error, open_run

if TYPE_CHECKING:
    from regard.memories.decoding_stats import LayerStats


@app.command()
@exit_on_error("regard generate")
def generate(
    run: Run,
    prompt: str = Option("", metavar="TEXT", help="What the text begins with; a new line if not given."),
    steps: int = Option(200, min=0, help="Tokens to write."),
    temperature: float = Option(1.0, min=0.0, help="Below 1 likely tokens get likelier; 0: the most likely."),
    top_k: int = Option(0, min=0, help="Only the k most likely tokens; 0: all."),
    top_p: float = Option(1.0, help="Only the fewest tokens with at least this probability together."),
    seed: int = Option(0, help="The same seed writes the same text."),
    cache: int = Option(
        0, min=0, metavar="N", help="Tokens of the last N that came in a like place are likelier."
    ),
    cache_share: float = Option(0.1, help="How much the cache counts."),
    as_json: bool = Option(
        False, "--json", help="One JSON object at the end: prompt, text, tokens, log_prob, seed, stats."
    ),
    stats: bool = Option(
        False,
        "--stats",
        help="Say what steps with a sparse map read, by layer and head.",
    ),
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Write on from a prompt with a language model, as it goes.

    Examples:

    - `regard generate runs/toy --prompt "the key to the cabinets"`

    - `regard generate runs/text --steps 500 --temperature 0.8 --top-k 40 --seed 7`
    """
    from regard.decoding.cache_pointer import CachePointer
    from regard.memories import decoding_stats

    if not 0 < top_p <= 1:
        fail(f"--top-p must be above 0 and at most 1; got {top_p}.")
    system = open_run(run, device, "language", threads)
    pointer = CachePointer(cache, cache_share) if cache else None

    def listen(piece: str) -> None:
        sys.stdout.write(piece)
        sys.stdout.flush()

    system.prompt(prompt)  # what is wrong with it is said before anything is written
    if not as_json:
        listen(prompt)
    found = system.generate(
        prompt,
        steps=steps,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        cache=pointer,
        listen=None if as_json else listen,
    )
    if as_json:
        facts = {name: getattr(found, name) for name in ("prompt", "text", "tokens", "log_prob")}
        read = {path: one.json() for path, one in decoding_stats(system.model).items()}
        more = {"stats": read} if stats else {}
        print(json.dumps({**facts, "seed": seed, **more}, ensure_ascii=False))
    else:
        listen("\n")
    if stats and not as_json:
        show_stats(decoding_stats(system.model))


def show_stats(stats: "dict[str, LayerStats]") -> None:
    """Print what was read, a line for each layer and head."""
    if not stats:
        remark("no step was certified: no map is sparse, or no text was long enough")
        return
    table = plain_table(
        "layer", "head", "steps", "visible", "scored", "support", "keys read", "bytes read", "fallbacks",
        right=("head", "steps", "visible", "scored", "support", "keys read", "bytes read"),
    )  # fmt: skip
    for path, layer in stats.items():
        others = ", ".join(f"{why} {count}" for why, count in layer.fallbacks.items())
        table.add_row(
            path,
            "",
            f"{layer.steps}",
            "",
            "",
            "",
            f"{layer.keys_read:.1%}",
            f"{layer.bytes_read:.1%}",
            others,
        )
        for number, head in enumerate(layer.heads):
            means = (f"{x:.1f}" for x in (head.visible, head.scored, head.support))
            table.add_row("", f"{number}", f"{head.steps}", *means)
    console(wide=120).print(table)
