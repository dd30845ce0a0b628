"""regard bench growth: tables and pictures of `regard.bench.cost_growth`."""

import json
from pathlib import Path

from regard.cli.app import console, fail, plain_table, remark
from regard.cli.common import check_picture, exit_on_error, progress_bar, save_picture


def run_growth(
    mechanisms: str, only: list[str] | None, largest: int, as_json: bool, plot: Path | None
) -> None:
    """Measure, and say what came out."""
    from regard.bench.cost_growth import LRA, SIZES, WHAT, WRITTEN, measured, rank_with_lra
    from regard.bench.machine_facts import machine
    from regard.mechanisms import MECHANISMS
    from regard.views import growth

    with exit_on_error("regard bench growth"):
        check_picture(plot)
        names = list(MECHANISMS) if mechanisms == "all" else mechanisms.split(",")
        for name in names:
            MECHANISMS[name]
    for quantity in only or ():
        if quantity not in WHAT:
            fail(f'no quantity "{quantity}". Known: {", ".join(WHAT)}.')
    quantities = [quantity for quantity in WHAT if quantity in (only or WHAT)]
    sizes = [n for n in SIZES if n <= largest]
    facts = machine()
    rows = []
    with progress_bar("", len(names) * len(quantities)) as show:
        for done, row in enumerate(
            measured(names, sizes, quantities, lambda what: show(description=what)), start=1
        ):
            rows.append(row)
            show(done)
    found = [{**row.json(), "command": "regard bench growth", **facts} for row in rows]
    for quantity in ("bytes_materialised", "bytes"):
        at = {row.mechanism: dict(row.points).get(WRITTEN) for row in rows if row.quantity == quantity}
        known = {name: value for name, value in at.items() if name in LRA and value is not None}
        if len(known) > 2:
            what = f"rank correlation with Long Range Arena: {WHAT[quantity]}, n = {WRITTEN:,}"
            found.append({"what": what, "slope": None, "correlation": round(rank_with_lra(known), 4)})
    if as_json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        table = plain_table("what", "slope", "interval", "expected", "held", right=("slope",))
        for one in found:
            if one["slope"] is None:
                table.add_row(one["what"], f"{one['correlation']:.2f}", "", "", "")
                continue
            interval = "" if one["interval"] is None else "{:.2f} … {:.2f}".format(*one["interval"])
            held = {True: "yes", False: "no", None: ""}[one["held"]]
            wanted = "" if one["expected"] is None else f"{one['expected']:g}"
            table.add_row(one["what"], f"{one['slope']:.3f}", interval, wanted, held)
        console(wide=120).print(table)
    if plot is not None:
        panels = {
            WHAT[quantity]: {row.mechanism: row.points for row in rows if row.quantity == quantity}
            for quantity in quantities
        }
        save_picture(growth(**panels), plot, quiet=True)
        remark(plot)
