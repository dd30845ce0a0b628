"""regard demo: a translator trained before your eyes, what it says, and where it looked."""

import os
import shlex
import shutil
import sys
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from typer import Option

from regard.cli.app import app, console, fail, os_error, say
from regard.cli.draw import column
from regard.cli.train import Watching, exit_on_training_error
from regard.data.corpora import CORPORA, Pair
from regard.runs import fit, load, resolve
from regard.runs.folder import CONFIG, finished
from regard.views import heat_map, save

if TYPE_CHECKING:
    from regard.alignment import Links
    from regard.alignment.choose import HeadView
    from regard.tasks.translator import Translation, Translator

SETTINGS: dict[str, Any] = {
    "seed": 1,
    "data": {"corpus": "phrases-de", "pairs": 115_000, "held_out": 200, "vocabulary": 1200, "longest": 64},
    "model": {
        "name": "transformer", "width": 128, "inner": 256, "heads": 4, "layers": 2, "dropout": 0.0,
        "positions": "learned",
    },
    "training": {
        "steps": 1600, "tokens": 1280, "examples": 96, "rate": 0.003, "schedule": "cosine", "warmup": 100,
        "validate": 400, "save": 400, "smoothing": 0.0,  # the corpus is large and has no noise
    },
    "decoding": {"beam": 1, "most": 80},
}  # fmt: skip
TESTED = 2000  # pairs that were never seen; those that come twice count once
SHOWN = 6  # of them, from the shortest to the longest
FRENCH = 2000  # pairs an aligner is trained on
ALIGNED = 1000  # those of them that it is tested on


@app.command()
def demo(
    out: Path = Option(
        Path("runs/demo"), metavar="DIR", help="Where the trained translator and the picture go."
    ),
) -> None:
    """Train a small English–German translator in about three minutes; show what it says and where it looks.

    Its corpus is generated: dates, times and prices. What is there already is used, not trained again.

    Example: `regard demo --out runs/demo`
    """
    started = monotonic()
    with exit_on_training_error("regard demo", out, again="the same command"):
        settings = resolve(SETTINGS)
        if out.is_dir() and finished(out):
            say(f"{out} is trained already; remove it to see it train again.\n")
            system = load(out)
        else:
            since = " since it went on" if (out / CONFIG).exists() else ""
            title("A translator learns English dates, times and prices in German\n")
            with Watching(settings.training.steps) as watching:
                system = fit(settings, out, resume=True, listen=watching.see, say=watching.say).system
            say(f"trained in {monotonic() - started:.0f} seconds{since}\n")
        pairs = unseen()
        show_translations(pairs, system.translate([pair.source for pair in pairs]))
        picture = show_attention(system, pairs[:200], out)
    say(f"\nTranslator: {out}")
    if picture is not None:
        say(f"Picture:    {picture}")
    program = command()
    typed = shlex.quote(str(out))
    say(f"Next:       {program} serve {typed}     (type a sentence of your own)")
    say(f'            echo "the film begins at half past eight" | {program} translate {typed}')


def command() -> str:
    """What to type for `regard`: of an environment that is not activated, its path."""
    here = Path(sys.argv[0])
    found = here.name == "regard" and shutil.which("regard") is None
    return shlex.quote(os.path.relpath(here)) if found else "regard"


def title(text: str, rest: str = "") -> None:
    """Print a line that begins in bold, not wrapped."""
    console().print(f"[bold]{text}[/]{rest}", soft_wrap=True)


def unseen() -> list[Pair]:
    """Pairs of the test split, each once: no sentence of it is trained on."""
    test = CORPORA[SETTINGS["data"]["corpus"]](seed=1, split="test")
    return list({pair.source: pair for pair in islice(test, TESTED)}.values())


def examples(pairs: list[Pair]) -> list[int]:
    """Which pairs are shown: the shortest, the longest, and some at equal distances between them."""
    order = sorted(range(len(pairs)), key=lambda k: (len(pairs[k].source.split()), pairs[k].source))
    last = max(SHOWN - 1, 1)
    return [order[k * (len(order) - 1) // last] for k in range(min(SHOWN, len(order)))]


def show_translations(pairs: list[Pair], found: "list[Translation]") -> None:
    """Print how many are right, and a few; a wrong one is said to be wrong."""
    right = sum(one.text == pair.target for one, pair in zip(found, pairs, strict=True))
    title(
        f"{right / len(pairs):.1%}", f" of {len(pairs):,} sentences it has never seen are translated exactly"
    )
    say("The shortest, the longest, and some between them:\n")
    for k in examples(pairs):
        wrong = "" if found[k].text == pairs[k].target else f"   (wrong: {pairs[k].target})"
        say(f"  {pairs[k].source}\n    → {found[k].text}{wrong}")


def show_attention(system: "Translator", pairs: list[Pair], out: Path) -> Path | None:
    """Print which words attention links, and how well; return the picture's path, None without matplotlib."""
    from regard.alignment import train
    from regard.alignment.forced_alignment import align_by_aligner

    aligned = system.align([(pair.source, pair.target) for pair in pairs])  # chosen without gold links
    assert aligned.view is not None
    share = agreement(system, pairs, aligned.view)
    title(
        "\nWhere it looked",
        f": {aligned.view}, what agrees best with a word aligner trained on these {len(pairs)} pairs. "
        f"For {share:.0%} of German words the English word with the most weight is one they stand for; "
        "the right links were used to count this, not to train or to choose.\n",
    )
    chosen = max(pairs[:40], key=lambda pair: (len(pair.target.split()) <= 12) * len(pair.target.split()))
    ((_, weights),) = word_weights(system, [chosen], aligned.view)
    source, target = chosen.source.split(), chosen.target.split()
    wide = max(map(len, target))
    for word, row in zip(target, weights.tolist(), strict=True):
        say(f"  {word:>{wide}} {' '.join(map(column, row))}")
    say(f"  {'':>{wide}} {' '.join(word[0] for word in source)}   ({chosen.source})")

    title(
        "\nWhich word stands for which",
        ": alignment error rate, 0 is perfect, without any link to learn from",
    )
    french = list(islice(CORPORA["phrases-fr"](seed=1, split="test"), FRENCH))
    started = monotonic()
    aligner = train((pair.source, pair.target) for pair in french)
    seconds = monotonic() - started
    tested = french[:ALIGNED]
    links = align_by_aligner(aligner, [(pair.source, pair.target) for pair in tested]).links
    say(
        f"  {error_rate(links, tested):.3f}  English–French: an aligner trained on {len(french):,} pairs "
        f"in {seconds:.0f} s (regard train alignment)"
    )
    say(
        f"  {error_rate(aligned.links, pairs):.3f}  English–German: this translator's attention "
        f"(regard align {shlex.quote(str(out))})"
    )
    try:
        return save(heat_map(weights, source, target), out / "alignment.png")
    except ImportError as error:
        say(error)
    except OSError as error:
        fail(os_error(error, out))
    return None


def error_rate(links: "list[Links]", pairs: list[Pair]) -> float:
    """The alignment error rate; links of words that gold leaves unaligned do not count."""
    from regard.alignment import Links, score

    return score(links, [Links.of(pair.alignment) for pair in pairs], aligned_words=True).aer


def word_weights(system: "Translator", pairs: list[Pair], view: "HeadView") -> list[tuple[Pair, Any]]:
    """Pairs in some order, each with the weights (target words, source words) of a head."""
    from regard.alignment.forced_alignment import forced

    found = forced(system, [(pair.source, pair.target) for pair in pairs], view.head)
    return [(pairs[k], view.correct(weights)) for k, weights in found]


def agreement(system: "Translator", pairs: list[Pair], view: "HeadView") -> float:
    """The share of target words whose source word of highest weight is one of their gold links."""
    hits = [
        (int(row.argmax()), j) in set(pair.alignment)
        for pair, weights in word_weights(system, pairs, view)
        for j, row in enumerate(weights)
    ]
    return sum(hits) / max(len(hits), 1)
