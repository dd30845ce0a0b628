"""Do sparse maps, tying or rationalizers pass the audit better? Train each with several seeds, and audit it.

    python examples/audit_of_remedies.py --out remedies.json
    python examples/audit_of_remedies.py --config examples/sst2.toml --train train.tsv.gz --valid dev.tsv \\
        --test test.tsv --name SST-2 --out remedies.json

Without files it takes `sentiment`, a corpus that regard generates. Every model of a seed has the same data
and steps. What is in the file already is not trained again; table and picture are of all that it has.
"""

import argparse
import json
import tomllib
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch

import regard
from regard.audits import Finding
from regard.audits.verdict import judge
from regard.core.files import write_text
from regard.data import LABELLED
from regard.data.labelled import labelled
from regard.runs import fit, resolve

VARIANTS = {
    "softmax": {},
    "entmax15": {"model": {"map": "entmax15"}},
    "sparsemax": {"model": {"map": "sparsemax"}},
    "tied": {"regularizers": {"tie": 1.0}},
    "masked words too": {"regularizers": {"mlm": 1.0}},
    "diverse states": {"regularizers": {"diversity": 0.5}},
    "orthogonal states": {"model": {"orthogonal": True}},
    "no context": {"model": {"name": "attentive_mlp"}},
    "rationalizer": {"model": {"name": "rationalizer_hardkuma", "target_rate": 0.2}},
}
SMALL = {
    "data": {"corpus": "sentiment", "texts": 6000},
    "model": {"embedding": 64},
    "training": {"steps": 400, "tokens": 2048, "rate": 0.005},
}


def settings(base, variant, seed):
    """The settings of one model."""
    values = {**base, "task": "classification", "seed": seed}
    for group, own in VARIANTS[variant].items():
        values[group] = {**values.get(group, {}), **own}
    values["model"] = {
        **values["model"],
        "width": values["model"]["embedding"],
    }  # states can be tied to vectors
    return resolve(values)


def audited(base, variant, seed, texts):
    """Train one model and audit it."""
    with TemporaryDirectory() as folder:
        system = fit(settings(base, variant, seed), Path(folder) / "run").system
    right = [
        answer.label == one.label
        for answer, one in zip(system.classify([t.text for t in texts]), texts, strict=True)
    ]
    tests = regard.audit(system, texts, quick=True).as_dict()["tests"]
    for finding in tests.values():
        del finding["details"]
    return {"accuracy": fmean(right), "tests": tests}


def graded(row):
    """The row with grade and conditions, by the thresholds of today."""
    verdict = judge({name: Finding.from_dict({**one, "details": {}}) for name, one in row["tests"].items()})
    scores = {name: condition.score for name, condition in verdict.conditions.items()}
    return {"accuracy": row["accuracy"], "grade": verdict.grade, **scores}


def table(found):
    """The means over seeds, as Markdown."""
    lines = ["| data | model | accuracy | necessary | hard to manipulate | out of context | grade | seeds |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for data, by_variant in found.items():
        for variant, by_seed in by_variant.items():
            rows = [graded(row) for row in by_seed.values()]
            means = [
                fmean(known) if (known := [row[key] for row in rows if row[key] is not None]) else None
                for key in ("accuracy", "necessary", "hard to manipulate", "out of context")
            ]
            grades = [row["grade"] for row in rows if row["grade"] is not None]
            cells = [
                "–" if mean is None else f"{mean:.3f}" if i == 0 else f"{mean:.2f}"
                for i, mean in enumerate(means)
            ]
            grade = f"{fmean(grades):.2f} ({min(grades):.2f} to {max(grades):.2f})" if grades else "–"
            lines.append(f"| {data} | {variant} | {' | '.join(cells)} | {grade} | {len(rows)} |")
    return "\n".join(lines)


def picture(found, file):
    """A dot for each seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(found), 3.6), layout="constrained")
    panels = figure.subplots(1, len(found), sharex=True, squeeze=False)[0]
    for axes, (data, by_variant) in zip(panels, found.items(), strict=True):
        for place, by_seed in enumerate(by_variant.values()):
            grades = [grade for row in by_seed.values() if (grade := graded(row)["grade"]) is not None]
            axes.plot(grades, [place] * len(grades), "o", color="#1f5f96", alpha=0.6, markersize=5)
        axes.set_yticks(range(len(by_variant)), list(by_variant), fontsize=8)
        axes.invert_yaxis()
        axes.set(title=data, xlabel="grade of the audit", xlim=(-0.03, 1.03))
        for edge in (1 / 3, 2 / 3):
            axes.axvline(edge, color="#c3cad1", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)


def main():
    """Train and audit what is not known yet, then show all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="results, as JSON; a picture goes beside it")
    parser.add_argument("--config", type=Path, help="settings of the models, in TOML")
    for name in ("train", "valid", "test"):
        parser.add_argument(f"--{name}", type=Path, help="labelled texts")
    parser.add_argument("--name", default="sentiment", help="what the data are called in the table")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of training, if not those of the settings")
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    given = parser.parse_args()
    base = SMALL if given.config is None else tomllib.loads(given.config.read_text(encoding="utf-8"))
    if given.train is not None:
        data = {key: value for key, value in base.get("data", {}).items() if key not in ("corpus", "texts")}
        base = {**base, "data": {**data, "train": str(given.train), "valid": str(given.valid)}}
    if given.steps is not None:
        base = {**base, "training": {**base.get("training", {}), "steps": given.steps}}
    if given.test is not None:
        texts = list(labelled(given.test))
    else:
        texts = list(islice(LABELLED["sentiment"](seed=7, split="test"), 500))
    found = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    for seed in range(given.seeds):
        for variant in given.only:
            known = found.setdefault(given.name, {}).setdefault(variant, {})
            if str(seed) not in known:
                known[str(seed)] = audited(base, variant, seed, texts)
                write_text(given.out, json.dumps(found, indent=1))
                print(given.name, variant, seed, graded(known[str(seed)]), flush=True)
    print(table(found))
    picture(found, given.out.with_suffix(".png"))


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
