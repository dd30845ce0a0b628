"""Do weights name the words that people marked? Train on sentences, and compare with what was highlighted.

    python examples/human_highlights.py --train tsd_train.csv.gz --test tsd_trial.csv.gz --out highlights.json

The files are those of SemEval-2021 task 5 (toxic spans): posts, and the places of the characters that people
marked as offensive. All posts are of one kind; so the task is to tell sentences in which something was marked
from the other sentences of these posts. The texts are offensive: numbers come out of this, never a sentence.

Printed for each model: accuracy beside that of the usual class; how well attention names the words marked, in
sentences that have such words and others (AUC, and F1 and IoU of as many words as were marked); the AUC of
leaving words out; and the grade of the audit, which knows nothing of what people marked. What is in the file
already is not trained again: take another file for other steps or texts.
"""

import argparse
import csv
import gzip
import io
import json
import re
from collections import Counter
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch

import regard
from regard.audits import AUDITS
from regard.audits.tests.plausibility import auc
from regard.core.files import write_text
from regard.data.labelled import Labelled, labelled
from regard.runs import fit, resolve

MODELS = {
    "BiLSTM, softmax": {"name": "attentive_bilstm"},
    "BiLSTM, entmax15": {"name": "attentive_bilstm", "map": "entmax15"},
    "MLP": {"name": "attentive_mlp"},
    "rationalizer": {"name": "rationalizer_hardkuma", "target_rate": 0.2},
}
SMALL = {"embedding": 64, "width": 64, "dropout": 0.5, "word_dropout": 0.1}
SHORTEST = 3  # words of a sentence


def posts(file):
    """(text, places of marked characters) of a CSV file, plain or gzip."""
    read = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    for row in csv.DictReader(io.StringIO(read.decode("utf-8"), newline="")):
        yield row["text"], set(json.loads(row["spans"]))


def sentences(text, marked):
    """The sentences of a post, in lower case, its words parted by blanks."""
    for found in re.finditer(r"[^.!?\n]+", text):
        words = list(re.finditer(r"\w+(?:['’*]+\w+)*", found[0]))
        if len(words) < SHORTEST:
            continue
        spans, at = [], 0
        for word in words:
            stop = at + len(word[0].lower())
            if marked.intersection(range(found.start() + word.start(), found.start() + word.end())):
                spans.append((at, stop))
            at = stop + 1
        joined = " ".join(word[0].lower() for word in words)
        yield Labelled(joined, "marked" if spans else "not", highlights=tuple(spans))


def written(texts, file):
    """As the JSONL that `regard train classification` takes."""
    rows = ({"text": one.text, "label": one.label, "highlights": one.highlights} for one in texts)
    write_text(file, "".join(json.dumps(row) + "\n" for row in rows))


def measured(model, seed, files, steps):
    """Train one model; what it is worth, and whom its weights agree with."""
    with TemporaryDirectory() as folder:
        values = {
            "task": "classification",
            "seed": seed,
            "data": {"train": str(files["train"]), "valid": str(files["valid"]), "tokens": "word"},
            "model": {**SMALL, **MODELS[model]},
            "training": {"steps": steps, "tokens": 1024, "rate": 0.002},
        }
        system = fit(resolve(values), Path(folder) / "run").system
    texts = list(labelled(files["test"]))
    case = system.case(texts)
    assert case.labels is not None and case.highlights is not None
    said = AUDITS["plausibility"](case)
    without = [
        auc(moved, marks)
        for moved, given in zip(case.leave_one_out, case.highlights, strict=True)
        if (marks := torch.as_tensor(given, dtype=torch.bool)).any() and not marks.all() and len(moved)
    ]
    return {
        "accuracy": float((case.decision == case.labels).double().mean()),
        "usual class": Counter(one.label for one in texts).most_common(1)[0][1] / len(texts),
        "AUC of attention": said.value,
        "F1 of attention": said.details["token F1"],
        "F1 at random": said.details["token F1 at random"],
        "IoU of attention": said.details["IoU"],
        "AUC of leaving out": fmean(without),
        "grade": regard.audit(case, quick=True).grade,
        "sentences": said.inputs,
    }


def table(found):
    """The means over seeds, as Markdown."""
    names = list(next(iter(next(iter(found.values())).values())))
    lines = ["| model | " + " | ".join(names) + " | seeds |", "|---" * (len(names) + 2) + "|"]
    for model, by_seed in found.items():
        cells = []
        for name in names:
            known = [row[name] for row in by_seed.values() if row[name] is not None]
            places = 0 if name == "sentences" else 3
            cells.append(f"{fmean(known):.{places}f}" if known else "–")
        lines.append(f"| {model} | {' | '.join(cells)} | {len(by_seed)} |")
    return "\n".join(lines)


def main():
    """Train what is not known yet, then show all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, required=True, help="posts to learn from, CSV")
    parser.add_argument("--test", type=Path, required=True, help="other posts, CSV")
    parser.add_argument("--out", type=Path, required=True, help="results, as JSON")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=800)
    given = parser.parse_args()
    found = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    with TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.jsonl" for name in ("train", "valid", "test")}
        learned = list(posts(given.train))
        parts = {"train": learned[len(learned) // 10 :], "valid": learned[: len(learned) // 10]}
        parts["test"] = list(posts(given.test))
        for name, some in parts.items():
            written([one for post in some for one in sentences(*post)], files[name])
        for seed in range(given.seeds):
            for model in MODELS:
                known = found.setdefault(model, {})
                if str(seed) not in known:
                    known[str(seed)] = measured(model, seed, files, given.steps)
                    write_text(given.out, json.dumps(found, indent=1) + "\n")
                    print(model, seed, known[str(seed)], flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
