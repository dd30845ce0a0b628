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
from pathlib import Path

from regard.audits.calibration import Result, fix, graded, result_of, run, separation
from regard.audits.planted.kinds import KINDS
from regard.audits.planted.summary import summary
from regard.audits.register import AUDITS
from regard.audits.thresholds import FIXED, GIVEN, TRAINED
from regard.core.files import write_text

FIXING, REPORTING = range(100, 105), range(5)


def main(arguments: list[str] | None = None) -> None:
    """Do one of the three, or all."""
    parser = argparse.ArgumentParser(
        "python -m regard.audits.planted", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("part", choices=["fix", "report", "table", "all"])
    parser.add_argument("--folder", type=Path, default=Path("docs/audits"))
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args(arguments)
    stem = "planted_full" if given.full else "planted"
    fixing, reported = given.folder / f"{stem}_fixing.json", given.folder / f"{stem}.json"
    if given.part in ("fix", "all"):
        results = measured(FIXING, fixing, given.full)
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
        measured(REPORTING, reported, given.full)
    if given.part in ("report", "table", "all"):
        print(summary(read(fixing), read(reported)))


def measured(seeds: range, file: Path, full: bool) -> list[Result]:
    """Results of all kinds from these seeds, written to a file as they come."""
    found: list[Result] = []

    def keep(result: Result) -> None:
        found.append(result)
        write_text(file, json.dumps([one.as_dict() for one in found], indent=1, ensure_ascii=False) + "\n")
        print(f"{result.kind}, seed {result.seed}: {graded(result.grade()):.2f}", flush=True)

    run(KINDS, seeds, quick=not full, listen=keep)
    print(f"{len(found)} models; AUC {separation(found):.3f} with the thresholds of thresholds.py")
    return found


def read(file: Path) -> list[Result]:
    """Results from a file."""
    return [result_of(one) for one in json.loads(file.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    main()
