"""regard train classification: from the user's labelled texts to a folder with a trained classifier."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from regard.cli.app import complain, console
from regard.cli.train import (
    Board,
    Config,
    Device,
    LearnAlpha,
    Map,
    Out,
    Resume,
    Score,
    Seed,
    Set,
    Steps,
    chosen,
    merged,
    train,
    trained,
)

Data = Annotated[
    Path | None, Option(help="Labelled texts: .tsv (text, tab, label) or .jsonl (text, label …); .gz too.")
]
Valid = Annotated[Path | None, Option(help="Others to validate on; without them some are held out.")]
Corpus = Annotated[
    str | None, Option(help="A generated corpus instead: sentiment, agreement, hotels, hotels-service …")
]
Model = Annotated[
    str | None,
    Option(
        help="attentive_bilstm, attentive_mlp, attentive_cnn, self_attentive, hierarchical, "
        "transformer_encoder, rationalizer_reinforce, rationalizer_hardkuma or rationalizer_entmax."
    ),
]
Vectors = Annotated[
    Path | None, Option(metavar="FILE", help="Vectors of words to begin with: word2vec's or GloVe's text.")
]
Tie = Annotated[float | None, Option(metavar="λ", help="Remedy: states stay near their words' vectors.")]
MLM = Annotated[float | None, Option(metavar="η", help="Remedy: masked words are guessed from the states.")]
Diversity = Annotated[float | None, Option(metavar="λ", help="Remedy: states must not all be alike.")]
Orthogonal = Annotated[
    bool, Option("--orthogonal", help="Remedy, attentive_bilstm: states orthogonal to those before.")
]
Deceive = Annotated[
    Path | None,
    Option(metavar="FILE", help="Against them: words, one per line, the model must not be seen to look at."),
]
DeceiveWeight = Annotated[float | None, Option(metavar="λ", help="How much that counts; 1 unless given.")]


@train.command()
def classification(
    out: Out,
    data: Data = None,
    valid: Valid = None,
    corpus: Corpus = None,
    model: Model = None,
    score: Score = None,
    map: Map = None,
    learn_alpha: LearnAlpha = False,
    vectors: Vectors = None,
    tie: Tie = None,
    mlm: MLM = None,
    diversity: Diversity = None,
    orthogonal: Orthogonal = False,
    deceive: Deceive = None,
    deceive_weight: DeceiveWeight = None,
    steps: Steps = None,
    seed: Seed = None,
    config: Config = None,
    set: Set = None,
    resume: Resume = False,
    device: Device = "auto",
    tensorboard: Board = False,
) -> None:
    """Train a classifier into DIR; `regard classify DIR` then uses it.

    Examples:

    - `regard train classification --corpus sentiment --model attentive_mlp --out runs/toy`

    - `regard train classification --data train.tsv.gz --valid dev.tsv --map entmax15 --out runs/sst`

    - `regard train classification --config examples/sst2.toml --map entmax --learn-alpha --out runs/sst`

    - `regard train classification --corpus sentiment --tie 1 --mlm 0.5 --out runs/tied`
    """
    groups: dict[str, dict[str, Any]] = {
        "data": {"train": data, "valid": valid, "corpus": corpus, "vectors": vectors},
        "model": {"name": model, "score": score, "map": map, "learn_alpha": learn_alpha or None},
        "training": {"steps": steps},
    }
    if orthogonal:
        groups["model"]["orthogonal"] = True
    remedy = {
        "tie": tie,
        "mlm": mlm,
        "diversity": diversity,
        "deceive": None if deceive is None else words_of(deceive),
        "deceive_weight": deceive_weight,
    }
    if any(value is not None for value in remedy.values()):
        groups["remedy"] = remedy
    values = merged(config, groups, {"seed": seed}, set)
    run(values, out, resume, chosen(device), tensorboard)


def words_of(path: Path) -> list[str]:
    """The words in a file, one per line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        complain(f"--deceive {path}: {error.strerror}.")
    except UnicodeDecodeError:
        complain(f"--deceive {path}: it is not UTF-8 text.")
    words = [line.strip() for line in lines if line.strip()]
    if not words or any(len(word.split()) > 1 for word in words):
        several = next((word for word in words if len(word.split()) > 1), None)
        why = "there is no word in it" if several is None else f"one word per line is needed; got {several!r}"
        complain(f"--deceive {path}: {why}.")
    return words


def run(values: dict[str, Any], out: Path, resume: bool, device: str, board: bool) -> None:
    """Train a classifier and say how it went."""
    from regard.runs.fit_classifier import fit_classifier
    from regard.runs.resolve_classifier import resolved_classifier

    command = "regard train classification"
    done = trained(
        fit_classifier, resolved_classifier, values, out, resume, device, board, command, unit="texts"
    )
    if done is None:
        return
    answer, scores = console(), done.quality
    figures = f"accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}"
    answer.print(f"{figures} on {scores.texts:,} validation texts", soft_wrap=True)
    answer.print(f"{out}: regard classify {out} < in.txt > out.txt", soft_wrap=True)
