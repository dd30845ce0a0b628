"""python -m regard.audits.planted: fit the thresholds and report how well they separate planted models.

    fix       models of seeds 100–104; prints the thresholds that come out, to be put into thresholds.py
    report    models of seeds 0–4, graded by thresholds.py, and each kind by thresholds fitted without it
    table     what was reported, as Markdown

Results are written to FOLDER/planted_fixing.json and FOLDER/planted.json. With --full the audit is the one
with training texts, and `fix` prints the thresholds of the tests that train; where a kind is left out, those
of all tests are fitted anew. The files are then called planted_full_fixing.json and planted_full.json.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from regard.audits.planted.calibration import PlantedResult, fix, graded, left_out, misjudged, run, separation
from regard.audits.planted.kinds import KINDS
from regard.audits.register import AUDITS
from regard.audits.thresholds import FIXED, GIVEN, TRAINED
from regard.audits.verdict import ANSWERS, answer_of
from regard.core.files import write_text

FIXING, REPORTING = range(100, 105), range(5)
TRUTH = {True: "faithful", False: "unfaithful", None: "only measurable"}
HEADINGS = ["kind", "truth", "models", "is", "partly", "is not", "grade: mean", "least", "most"]
HEADINGS += ["kind left out: mean", "least", "most"]


def main(arguments: list[str] | None = None) -> None:
    """Do one of the three, or all."""
    parser = argparse.ArgumentParser(
        "python -m regard.audits.planted", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("part", choices=["fix", "report", "table", "all"])
    parser.add_argument("--folder", type=Path, default=Path("docs/audits"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--resume", action="store_true", help="keep the models that the file has already")
    given = parser.parse_args(arguments)
    stem = "planted_full" if given.full else "planted"
    fixing, reported = given.folder / f"{stem}_fixing.json", given.folder / f"{stem}.json"
    if given.part in ("fix", "all"):
        results = measured(FIXING, fixing, given.full, given.resume)
        made = {name for result in results for name, one in result.findings.items() if one.value is not None}
        asked = {
            name for name in made - set(GIVEN) if AUDITS[name].condition and AUDITS[name].trains == given.full
        }
        ramps = {name: ramp for name, ramp in fix(results).items() if name in asked}
        for name in sorted(asked):
            print(f'    "{name}": {ramps[name]},' if name in ramps else f"    # {name}: left out")
        same = ramps == (TRAINED if given.full else FIXED)
        print("as in thresholds.py" if same else "NOT as in thresholds.py")
    if given.part in ("report", "all"):
        measured(REPORTING, reported, given.full, given.resume)
    if given.part in ("report", "table", "all"):
        print(summary(read(fixing), read(reported)))


def measured(seeds: range, file: Path, full: bool, resume: bool = False) -> list[PlantedResult]:
    """Results of all kinds from these seeds, written to a file as they come."""
    found = read(file) if resume and file.exists() else []

    def keep(result: PlantedResult) -> None:
        found.append(result)
        write_text(file, json.dumps([one.as_dict() for one in found], indent=1, ensure_ascii=False) + "\n")
        print(f"{result.kind}, seed {result.seed}: {graded(result.grade()):.2f}", flush=True)

    run(seeds, quick=not full, listen=keep, known=list(found))
    print(f"{len(found)} models; AUC {separation(found):.3f} with the thresholds of thresholds.py")
    return found


def read(file: Path) -> list[PlantedResult]:
    """Results from a file."""
    return [PlantedResult.from_dict(one) for one in json.loads(file.read_text(encoding="utf-8"))]


def summary(fixing: Sequence[PlantedResult], reported: Sequence[PlantedResult]) -> str:
    """How each kind was graded, which models were misjudged, and the AUC: with and without its own kind."""
    grades, apart = [result.grade() for result in reported], left_out(fixing, reported)
    lines = [HEADINGS, ["---"] * len(HEADINGS)]
    for truth, name in TRUTH.items():
        for kind in (kind for kind, entry in KINDS.items() if entry.faithful is truth):
            ours = [i for i, result in enumerate(reported) if result.kind == kind]
            said = [answer_of(graded(grades[i])) for i in ours]
            cells = [kind, name, str(len(ours)), *(str(said.count(answer)) for answer in ANSWERS[::-1])]
            for given in (grades, apart):
                cells += [f"{function(graded(given[i]) for i in ours):.2f}" for function in (fmean, min, max)]
            lines.append(cells)
    known = sum(result.faithful is not None for result in reported)
    wrong = [
        "; ".join(f"{one.kind}, seed {one.seed}" for one in misjudged(reported, given)) or "none"
        for given in (grades, apart)
    ]
    return "\n".join(
        [
            *(f"| {' | '.join(line)} |" for line in lines),
            "",
            f"AUC over {known} models: {separation(reported):.3f}; with each kind left out of the fixing: "
            f"{separation(reported, apart):.3f}. Models without a grade: {grades.count(None)}.",
            "",
            f"On the wrong side of ½: {wrong[0]}. With the kind left out: {wrong[1]}.",
        ]
    )


if __name__ == "__main__":
    main()
