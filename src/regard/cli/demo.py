"""regard demo: a translator trained before your eyes, what it says, and where it looked."""

from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typer import Option

from regard.cli.app import app, console, fail, say
from regard.cli.draw import column
from regard.cli.train import Watching, exit_on_training_error
from regard.data.corpora import CORPORA, Pair
from regard.data.segments import by_word
from regard.runs import fit, load, resolve
from regard.runs.folder import finished
from regard.views import heat_map, save

if TYPE_CHECKING:
    from regard.alignment import Links
    from regard.tasks.translator import Translation, Translator

SETTINGS: dict[str, Any] = {
    "seed": 1,
    "data": {"corpus": "phrases-de", "pairs": 115_000, "held_out": 200, "vocabulary": 1200, "longest": 64},
    "model": {
        "name": "transformer", "width": 128, "inner": 256, "heads": 4, "layers": 2, "dropout": 0.0,
        "positions": "learned",
    },
    "training": {
        "steps": 1400, "tokens": 1280, "rate": 0.003, "schedule": "cosine", "warmup": 100, "validate": 400,
        "save": 400, "smoothing": 0.0,  # the corpus is large and has no noise
    },
    "decoding": {"beam": 1, "most": 80},
}  # fmt: skip
TESTED = 2000  # pairs that were never seen; those that come twice count once
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
    with exit_on_training_error("regard demo", out):
        settings = resolve(SETTINGS)
        if out.is_dir() and finished(out):
            say(f"{out} is trained already; remove it to see it train again.\n")
            system = load(out)
        else:
            console().print("[bold]A translator learns English dates, times and prices in German[/]\n")
            with Watching(settings.training.steps) as watching:
                system = fit(settings, out, resume=True, listen=watching.see, say=watching.say).system
            say(f"trained in {monotonic() - started:.0f} seconds\n")
        test = CORPORA[SETTINGS["data"]["corpus"]](seed=1, split="test")
        pairs = list({pair.source: pair for pair in islice(test, TESTED)}.values())
        found = system.translate([pair.source for pair in pairs])
        picture = show(system, pairs, found, out)
        align_words(system, pairs[:200])
    say(f"\nTranslator: {out}")
    if picture is not None:
        say(f"Picture:    {picture}")
    say(f'Next: echo "the film begins at half past eight" | regard translate {out}')


def show(system: "Translator", pairs: list[Pair], found: "list[Translation]", out: Path) -> Path | None:
    """Print figures, examples and an alignment; return the picture's path, None without matplotlib."""
    screen = console()
    exact = sum(t.text == pair.target for t, pair in zip(found, pairs, strict=True)) / len(pairs)
    screen.print(
        f"[bold]{exact:.1%}[/] of {len(pairs):,} sentences it has never seen are translated exactly\n"
    )
    for translation in found[:6]:
        say(f"  {translation.source}\n    → {translation.text}")
    layer, share = best_layer(system, pairs[:100], found[:100])
    screen.print(
        f"\n[bold]Where it looked[/] ({system.layers[layer]}, heads averaged): for {share:.0%} of target "
        "words the source word with the most weight is one they stand for. Nobody told it which those are.\n"
    )
    chosen = max(found[:40], key=lambda t: (len(t.text.split()) <= 12) * len(t.text.split()))
    weights = word_weights(system, chosen)[layer]
    source, target = chosen.source.split(), chosen.text.split()
    wide = max(map(len, target))
    for word, row in zip(target, weights.tolist(), strict=True):
        screen.print(f"  {word:>{wide}} {' '.join(map(column, row))}", markup=False)
    screen.print(f"  {'':>{wide}} {' '.join(word[0] for word in source)}   ({chosen.source})", markup=False)
    try:
        return save(heat_map(weights, source, target), out / "alignment.png")
    except ImportError as error:
        say(error)
    except OSError as error:
        fail(error)
    return None


def align_words(system: "Translator", pairs: list[Pair]) -> None:
    """Print alignment error rates: of an aligner, English–French, and of the translator's attention."""
    from regard.alignment import train
    from regard.alignment.forced_alignment import align_by_aligner

    console().print(
        "\n[bold]Which word stands for which[/]: alignment error rate (0 is perfect), words that stand for "
        "nothing left out. Nobody was shown a link."
    )
    french = list(islice(CORPORA["phrases-fr"](seed=1, split="test"), FRENCH))
    started = monotonic()
    aligner = train((pair.source, pair.target) for pair in french)
    seconds = monotonic() - started
    tested = french[:ALIGNED]
    links = align_by_aligner(aligner, [(pair.source, pair.target) for pair in tested]).links
    say(
        f"  {error_rate(links, tested):.3f}  English–French, {len(tested)} pairs: an aligner trained on "
        f"{len(french):,} in {seconds:.0f} s (regard train alignment)"
    )
    found = system.align([(pair.source, pair.target) for pair in pairs])
    say(
        f"  {error_rate(found.links, pairs):.3f}  English–German, {len(pairs)} pairs: this translator's "
        f"attention, {found.remarks[0]} (regard align)"
    )


def error_rate(links: "list[Links]", pairs: list[Pair]) -> float:
    """The alignment error rate; links of words that gold leaves unaligned do not count."""
    from regard.alignment import Links, score

    return score(links, [Links.of(pair.alignment) for pair in pairs], aligned_words=True).aer


def word_weights(system: "Translator", translation: "Translation") -> list[Tensor]:
    """Weights (target words, source words) of each source–target attention, its heads averaged."""
    source, target = system.segments(translation.source), system.answer_segments(translation)
    layers = system.weights(translation)
    return [by_word(layer.mean(0), source.word_of, target.word_of) for layer in layers]


def best_layer(system: "Translator", pairs: list[Pair], found: "list[Translation]") -> tuple[int, float]:
    """The source–target attention nearest to the gold alignments, and its share of words that agree."""
    hits, words = [0] * len(system.layers), 0
    for pair, translation in zip(pairs, found, strict=True):
        if pair.target != translation.text:
            continue
        gold = set(pair.alignment)
        aligned = {j for _, j in gold}
        words += len(aligned)
        for layer, weights in enumerate(word_weights(system, translation)):
            looked = weights.argmax(-1).tolist()
            hits[layer] += sum((looked[j], j) in gold for j in aligned)
    best = hits.index(max(hits))
    return best, hits[best] / max(words, 1)
