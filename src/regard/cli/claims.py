"""regard claims: what lectures claim, what was measured, and the experiments themselves."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Context, Option

from regard.cli.app import OneLine, app, console, fail, plain_table, remark, say
from regard.cli.claims_tables import compared, describe, minutes, report
from regard.cli.common import check_folder, check_picture, exit_on_error, progress_bar, save_picture
from regard.core.counting import counted

if TYPE_CHECKING:
    from regard.claims.claim import Claim

claims = typer.Typer(cls=OneLine, rich_markup_mode="markdown", invoke_without_command=True)
app.add_typer(claims, name="claims", help="List what lectures claim, show what was measured, run it again.")

AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Folder = Annotated[Path, Option("--to", metavar="DIR", help="Where figures are stored, one file per claim.")]
STORED = Path("runs/claims")


@claims.callback()
def listing(context: Context, as_json: AsJson = False) -> None:
    """List what lectures claim, show what was measured, run it again.

    Without a command: all claims, each with its lecture, its verdict, its seeds and the minutes of one.

    Examples:

    - `regard claims`

    - `regard claims show C5`

    - `regard claims run C69`
    """
    if context.invoked_subcommand is not None:
        return
    from regard.claims import CLAIMS
    from regard.claims.claim_summary import data, seeds
    from regard.claims.stored_figures import read

    records = [read(claim) for claim in CLAIMS.values()]
    if as_json:
        print(json.dumps([data(record, every=False) for record in records], ensure_ascii=False, indent=1))
        return
    table = plain_table("", "claim", "lecture", "verdict", "seeds", "minutes", right=("minutes",))
    for record in records:
        claim = record.claim
        verdict = str(record.verdict)
        row = (claim.number, claim.says, claim.lectures, verdict, seeds(record), f"{claim.minutes:g}")
        table.add_row(*row)
    console(150).print(table)
    exact = sum(record.claim.exact for record in records)
    say(f"{len(records)} claims, {exact} of them exact. Next: regard claims show C5.")


@claims.command()
@exit_on_error("regard claims show")
def show(
    number: Annotated[str, Argument(metavar="CLAIM", help="Its number: C5.")],
    out: Path | None = Option(
        None, metavar="FILE", help="Draw figures and thresholds, too: claim.png, or .svg, .pdf."
    ),
    as_json: AsJson = False,
) -> None:
    """Show a claim: where it is said, experiment, control, thresholds, figures of every seed, the verdict.

    Examples:

    - `regard claims show C5`

    - `regard claims show C65 --out c65.png`
    """
    from regard.claims import CLAIMS
    from regard.claims.claim_figure import claim_figure
    from regard.claims.claim_summary import data
    from regard.claims.stored_figures import read

    check_picture(out, page=False)
    record = read(CLAIMS[number])
    if as_json:
        print(json.dumps(data(record), ensure_ascii=False, indent=1))
    else:
        describe(record)
    if out is not None:
        save_picture(claim_figure(record), out, quiet=as_json)


@claims.command()
@exit_on_error("regard claims run")
def run(
    numbers: Annotated[list[str] | None, Argument(metavar="CLAIM", help="Numbers: C5 C69.")] = None,
    exact: bool = Option(False, "--exact", help="All that need no training: under a minute."),
    missing: bool = Option(False, "--missing", help="All whose published figures are of too few seeds."),
    seeds: int = Option(5, min=1, help="How many of the seeds of a claim."),
    longest: float | None = Option(
        None,
        "--longest",
        metavar="MINUTES",
        help="With --missing: only claims of which a seed takes at most so long.",
    ),
    within: float | None = Option(
        None,
        min=0,
        metavar="MINUTES",
        help="Begin no further seed after so long; the same command continues later.",
    ),
    to: Folder = STORED,
    map: str | None = Option(None, help="A map in the place of ours, where a claim takes one."),
    model: str | None = Option(
        None, help="A classifier or hf:PATH in the place of ours, where a claim takes one."
    ),
    data: Path | None = Option(None, metavar="FILE", help="Texts of your own, where a claim takes them."),
    quick: bool = Option(False, "--quick", help="Two steps of training: whether it runs. Nothing is stored."),
    as_json: AsJson = False,
) -> None:
    """Run claims, store what is found, and say whether it agrees with what is published.

    One file per claim is written as each seed ends; seeds that are in it are not run again. The exit code is
    1 if a verdict differs from the published one.

    Examples:

    - `regard claims run C5 --seeds 5`

    - `regard claims run --exact`

    - `regard claims run C69 --map entmax15 --model attentive_cnn`

    - `regard claims run C65 C69 --model hf:models/minilm-sst2 --data sst2.tsv --seeds 1`

    - `regard claims run --missing --longest 2 --within 30`
    """
    from regard.claims.runner import identity, run_claims, try_out

    chosen = _chosen(numbers or [], exact, missing, longest)
    given = {"map": map, "model": model, "data": None if data is None else str(data)}
    options = _options(chosen, {name: value for name, value in given.items() if value is not None})
    if not chosen and not as_json:
        say("Nothing to run: every such claim has the published figures of all its seeds.")
        return
    if quick:
        tried = {}
        for claim in chosen:
            tried[claim.number] = list(try_out(claim, options).figures)
            if not as_json:
                say(f"{claim.number}: it runs, {counted(len(tried[claim.number]), 'figure')}.")
        if as_json:
            print(json.dumps(tried, ensure_ascii=False, indent=1))
        return
    for claim in chosen:
        if len(claim.seeds) < seeds and not claim.exact:
            remark(
                f"{claim.number} has {len(claim.seeds)} seeds, {claim.seeds[0]} to {claim.seeds[-1]}: "
                "no more are run."
            )
    check_folder(to)
    total = sum(claim.minutes * (1 if claim.exact else min(seeds, len(claim.seeds))) for claim in chosen)
    remark(f"{counted(len(chosen), 'claim')}, about {minutes(60 * total)} if nothing is stored in {to} yet.")
    with progress_bar("claims", None) as show_bar:

        def listen(claim: "Claim", seed: int, left: float) -> None:
            remark(f"{claim.number}, seed {seed}; about {minutes(left)} left.")
            show_bar(description=claim.number)

        found = run_claims(chosen, seeds, to, options, within, listen)
    answers = [compared(found[claim.number], identity(options)) for claim in chosen]
    if as_json:
        print(json.dumps(answers, ensure_ascii=False, indent=1))
    else:
        report(answers, to)
    if any(answer["agrees"] is False for answer in answers):
        raise typer.Exit(1)


def _chosen(numbers: list[str], exact: bool, missing: bool, longest: float | None) -> "list[Claim]":
    """The claims that were asked for."""
    from regard.claims import CLAIMS
    from regard.claims.runner import missing as too_few

    if (len(numbers) > 0) + exact + missing != 1:
        fail("either numbers of claims, or --exact, or --missing is needed. regard claims lists them.")
    if longest is not None and not missing:
        fail("--longest goes with --missing.")
    if exact:
        return [claim for claim in CLAIMS.values() if claim.exact]
    if missing:
        return too_few(longest)
    return [CLAIMS[number] for number in dict.fromkeys(numbers)]


def _options(chosen: "list[Claim]", given: dict[str, str]) -> dict[str, str]:
    """What was given in the place of ours, if every claim takes it."""
    from regard.claims import CLAIMS

    for name in given:
        refusing = [claim.number for claim in chosen if name not in claim.options]
        if refusing:
            taking = ", ".join(claim.number for claim in CLAIMS.values() if name in claim.options)
            fail(f"{', '.join(refusing)} takes no --{name}. Those that do: {taking}.")
    if "map" in given:
        from regard.models.parts.named_components import make_map

        make_map(given["map"])  # an unknown name and a map of whole matrices are errors that list the others
    if "data" in given and not Path(given["data"]).is_file():
        fail(f"--data {given['data']}: there is no such file.")
    return given
