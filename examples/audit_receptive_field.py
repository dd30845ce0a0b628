"""May attention over regions be read as evidence where a region has seen little of the picture, and where it
has seen all of it?

    python examples/audit_receptive_field.py --out receptive.json

Attention with one query over an 8 × 8 grid of cells, on glyphs in clutter (32 × 32 pixels). More convolutions
of stride 1 before the grid let a cell see more pixels; grid, widths, pictures and steps stay the same. Each
network is trained with several seeds and audited (quick) on pictures it has not seen. What is in the file
already is not trained again. Intervals are bootstraps of 95 % over seeds.
"""

import argparse
import json
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import regard
from regard.claims.claim_summary import interval
from regard.core.files import write_text
from regard.data.corpora import IMAGES
from regard.runs import fit, resolve

BLOCKS = {"17": (1, 0), "33": (1, 1), "65": (1, 3)}  # pixels that a cell sees across: blocks of each stage
SHOWN = ("accuracy", "weight by area", "necessary", "hard to manipulate", "out of context", "grade")
TESTS = ("comprehensiveness", "permutation", "erasure", "leave_one_out_correlation")


def trained(field, seed, steps, pictures):
    """A classifier of glyphs whose cells see so many pixels."""
    settings = {
        "task": "image", "seed": seed, "data": {"corpus": "glyphs", "pictures": pictures},
        "model": {"name": "image_attention", "widths": (16, 32), "blocks": BLOCKS[field]},
        "augmentation": {"flip": False}, "training": {"steps": steps, "tokens": 64},
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        system = fit(resolve(settings), Path(folder) / "run").system
    assert system.receptive[0] == int(field), system.receptive
    return system


def measured(field, seed, given):
    """What the audit finds of one network."""
    system = trained(field, seed, given.steps, given.pictures)
    held_out = list(islice(IMAGES["glyphs"](seed, "test"), given.audited))
    scores = system.score(held_out)
    case = system.case(held_out, baseline=given.baseline)
    report = regard.audit(case, quick=True, seed=seed)
    found = {
        "accuracy": scores["accuracy"],
        "weight by area": scores["weight_by_area"],
        "grade": report.grade,
    }
    found |= {name: one.score for name, one in report.conditions.items()}
    for name in TESTS:
        one = report.tests[name]
        found |= {name: one.value, f"{name}, baseline": one.baseline}
    return found


def table(found):
    """A row for each network, as Markdown."""
    heads = ["pixels a cell sees", *SHOWN, "seeds"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for field, by_seed in found.items():
        rows, cells = list(by_seed.values()), []
        for name in SHOWN:
            known = [row[name] for row in rows if row.get(name) is not None]
            cells.append(interval(known) if known else "–")
        lines.append(f"| {field} | {' | '.join(cells)} | {len(rows)} |")
    lines += ["", "| pixels a cell sees | test | value | baseline |", "|---|---|---|---|"]
    for field, by_seed in found.items():
        for test in TESTS:
            values, baselines = (
                [row[name] for row in by_seed.values() if row.get(name) is not None]
                for name in (test, f"{test}, baseline")
            )
            if values:
                low = f"{fmean(baselines):.3f}" if baselines else "–"
                lines.append(f"| {field} | {test.replace('_', ' ')} | {interval(values)} | {low} |")
    return "\n".join(lines)


def main():
    """Train and audit what is not known yet, then show all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="results, as JSON")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=500, help="of training, 64 pictures each")
    parser.add_argument("--pictures", type=int, default=8000, help="to train on")
    parser.add_argument("--audited", type=int, default=200, help="pictures to audit on")
    parser.add_argument("--baseline", choices=["grey", "blur"], default="grey", help="for deleted regions")
    parser.add_argument("--only", nargs="*", choices=BLOCKS, default=list(BLOCKS))
    given = parser.parse_args()
    found = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    for seed in given.seeds:
        for field in given.only:
            known = found.setdefault(field, {})
            if str(seed) not in known:
                known[str(seed)] = measured(field, seed, given)
                write_text(given.out, json.dumps(found, indent=1))
                print(field, seed, known[str(seed)], flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
