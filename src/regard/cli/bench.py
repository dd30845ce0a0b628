"""regard bench: regard against torch and other packages; `regard.bench` has what is measured."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from regard.cli.app import OneLine, app, console, fail, plain_table, remark
from regard.cli.common import check_picture, exit_on_error, progress_bar, save_picture
from regard.core.bridges import prefix_of

if TYPE_CHECKING:
    from regard.bench import TimedCase

bench = typer.Typer(cls=OneLine, rich_markup_mode="markdown")
app.add_typer(bench, name="bench", help="Measure regard against torch and other packages.")

Only = Annotated[
    list[str] | None, Option("--only", metavar="GROUP", help="Only this group; may be given several times.")
]


@dataclass(frozen=True)
class BenchOptions:
    """How a command measures and what it prints: the options that commands share."""

    quick: Annotated[
        bool, Option("--quick", help="Fewer rounds, no large sizes: a look, not a measurement.")
    ] = False
    cpu_time: Annotated[
        bool, Option("--cpu-time", help="Seconds of the processor, not of the clock: for one thread.")
    ] = False
    as_json: Annotated[bool, Option("--json", help="Print a list of objects, one for each row.")] = False
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="Draw time and memory against n: .png, .svg or .pdf.")
    ] = None


def bench_command(
    *shared: str, name: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with options of its own and these of BenchOptions, which it gets as `options`."""

    def enter(work: Callable[..., None]) -> Callable[..., None]:
        def run(**typed: Any) -> None:
            work(BenchOptions(**{option: typed.pop(option) for option in shared}), **typed)

        _, *own = signature(work).parameters.values()
        added = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in fields(BenchOptions)
            if one.name in shared
        ]
        made: Any = run
        made.__signature__, made.__doc__ = Signature([*own, *added]), work.__doc__
        bench.command(name or work.__name__)(made)
        return work

    return enter


@bench_command("quick", "cpu_time", "as_json", "plot")
def attention(
    options: BenchOptions,
    only: Only = None,
    run: Path | None = Option(
        None, metavar="DIR", help="Measure on the scores of a trained run instead, validation sentences."
    ),
) -> None:
    """Measure attention against scaled_dot_product_attention and nn.MultiheadAttention.

    Groups: sparse (scaled dot + entmax15), settings (terms, dropout), memory, softmax, masks, window,
    mechanisms, heads, decoding, import. 8 heads of width 64; as many threads as OMP_NUM_THREADS says.

    Examples:

    - `regard bench attention --quick`

    - `regard bench attention --only sparse --only memory --plot growth.svg`

    - `regard bench attention --run runs/en-de`
    """
    if run is None:
        measure("attention_speed", options, "attention", only=only)
        return
    from regard.bench.attention_of_run import of_run

    try:
        cases = of_run(run)
    except (OSError, ValueError) as error:
        fail(error)
    report(cases, f"attention --run {run}", options)


@bench.command()
def costs(as_json: Annotated[bool, Option("--json", help="Print a list of objects.")] = False) -> None:
    """Measure the lectures' table of costs: self-attention, recurrent, convolutional, restricted layers.

    FLOPs by torch's counter, sequential operations and paths from graphs; nothing by the clock.

    Example: `regard bench costs`
    """
    from regard.claims.layer_costs import cost_table

    rows = cost_table()
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    table = plain_table(*rows[0], right=tuple(rows[0])[1:])
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console(wide=130).print(table)


@bench_command("quick", "cpu_time", "as_json", "plot")
def decoding(
    options: BenchOptions,
    keys: Path | None = Option(
        None,
        metavar="FILE",
        help="Measure certified steps instead, on queries, keys and values of a model (safetensors).",
    ),
    model: Path | None = Option(
        None,
        metavar="hf:PATH",
        help="Measure tokens that a language model of transformers writes with a certified cache instead.",
    ),
    text: Path | None = Option(
        None, metavar="FILE", help="With --model: what it reads; random tokens if it is not given."
    ),
) -> None:
    """Measure beam search against the `generate` of transformers, with the same weights and outputs.

    Needs transformers: `pip install 'regard[hf]'`.

    With --keys: one step of exact sparse decoding that reads codes of the keys, against SDPA and an exact
    scan; time, bytes read, memory, keys lost. FILE has layerL.keys, layerL.values (key/value heads, n, d),
    layerL.queries (heads, m, d) for some L, and positions (m).

    With --model: 64 tokens after 2,048, swapped to entmax15 (scores × 0.35): whether they are those written
    without the certified cache, their time, and attention's share of it.

    Examples:

    - `regard bench decoding --json > decoding.json`

    - `regard bench decoding --keys qkv.safetensors --json`

    - `regard bench decoding --model hf:smollm2.gguf --text wiki.test.txt`
    """
    if model is not None:
        path = path_of(model, "--model")
        with exit_on_error("regard bench decoding"):
            shown = f"decoding --model hf:{path.name}"
            measure("certified_generation", replace(options, plot=None), shown, path=path, text=text)
        return
    if keys is None:
        measure("decoding", options)
        return
    from regard.bench.certified_step import layers

    try:
        layers(keys)
    except ValueError as error:
        fail(error)
    threads = 1 if options.cpu_time else 2
    measure("certified_step", options, f"decoding --keys {keys.name}", keys=keys, threads=threads)


@bench_command("quick", "as_json")
def drawing(options: BenchOptions) -> None:
    """Measure how long a browser takes to draw heat maps of 20 to 512 tokens, beside the 100 ms one notices.

    Needs Chromium (`make browser`) and Playwright (`pip install playwright`).

    Example: `regard bench drawing --json > drawing.json`
    """
    measure("drawing", options)


@bench_command("quick", "as_json")
def flow(options: BenchOptions, only: Only = None) -> None:
    """Measure attention flow, 6 layers × 32 tokens and all pairs, against networkx, scipy and igraph.

    Groups: networkx, compiled (the faster of scipy and igraph). Every flow that a peer is asked for must
    equal ours to 1e-9.

    Example: `regard bench flow --json > flow.json`
    """
    measure("flow", options, only=only)


@bench_command("quick", "as_json", "plot")
def growth(
    options: BenchOptions,
    mechanisms: str = Option("all", metavar="A,B,…", help="Mechanisms, by comma; or all."),
    only: Annotated[
        list[str] | None,
        Option("--only", metavar="QUANTITY", help="flops, bytes, bytes_materialised or seconds; repeatable."),
    ] = None,
    largest: int = Option(16384, min=1024, metavar="N", help="The largest n; the smallest is 256."),
) -> None:
    """Measure how FLOPs, peak bytes and time of each mechanism grow with n, forward + backward.

    FLOPs and bytes are counted, not timed; slopes are of log against log, n = 512 … 8,192, with an interval.
    With all mechanisms and n up to 16,384 it takes some minutes.

    Examples:

    - `regard bench growth --json > growth.json`

    - `regard bench growth --mechanisms full,local,performer --only flops --plot growth.svg`
    """
    from regard.cli.bench_growth import run_growth

    run_growth(mechanisms, only, 2048 if options.quick else largest, options.as_json, options.plot)


@bench_command("quick", "cpu_time", "as_json")
def language(options: BenchOptions, only: Only = None) -> None:
    """Measure language models against a plain torch loop and the `generate` of transformers.

    Groups: training, map (entmax15 against softmax at n = 2,048), memory (segments with a memory against a
    window that slides by a token), writing (needs transformers: `pip install 'regard[hf]'`).

    Example: `regard bench language --json > language.json`
    """
    measure("language_speed", options, "language", only=only)


@bench_command("quick", "as_json", "plot")
def maps(options: BenchOptions, only: Only = None) -> None:
    """Measure the row maps, forward + backward, against torch.softmax and the `entmax` package.

    Groups: rows, learned, fusedmax, memory, peers. Candidates take turns; the figures are medians.

    Examples:

    - `regard bench maps --quick`

    - `regard bench maps --only rows --only peers --json > maps.json`
    """
    measure("map_speed", options, "maps", only=only)


@bench_command("quick", "as_json")
def serving(
    options: BenchOptions,
    clients: list[int] = Option([16, 200], min=1, help="That ask at the same time; may be repeated."),
    seconds: float = Option(30.0, min=1, help="For how long."),
) -> None:
    """Measure `regard serve` under many clients at once: answers, waiting, memory. Any error ends it.

    Example: `regard bench serving --clients 16 --clients 200 --seconds 30`
    """
    measure("serving", options, clients=clients, seconds=seconds)


@bench_command("quick", "as_json", "plot")
def structured(options: BenchOptions, only: Only = None) -> None:
    """Measure the structured maps against torch-struct, a QP solver (OSQP), torch.softmax and condat-tv.

    Groups: chain, sparsemap, fusedmax, hot (every structured map at n = 512, batch 64; matchings and trees at
    m = n = 32). A peer that is not installed is left out, with a line that says how to get it.

    Examples:

    - `regard bench structured --quick`

    - `regard bench structured --only chain --only sparsemap --json > structured.json`
    """
    measure("structured", options, only=only)


@bench_command("quick", "cpu_time", "as_json", name="swapped-model")
def swapped_model(
    options: BenchOptions,
    model: Annotated[Path, typer.Argument(metavar="hf:PATH", help="A language model of transformers.")],
    text: Path | None = Option(None, metavar="FILE", help="What it reads; random tokens if it is not given."),
    only: Only = None,
) -> None:
    """Measure a forward pass of a language model through regard against its own SDPA attention, in turn.

    Groups: softmax (1,024 tokens), entmax15 (4,096 tokens, scores × 0.35). Needs transformers: `pip install
    'regard[hf]'`.

    Example: `regard bench swapped-model hf:SmolLM2-135M --text wiki.test.txt --only softmax`
    """
    path = path_of(model, "swapped-model")
    with exit_on_error("regard bench swapped-model"):
        measure("swapped_model", options, "swapped-model", path=path, text=text, only=only)


@bench_command("quick", "as_json")
def training(options: BenchOptions, only: Only = None) -> None:
    """Measure training against a plain loop around torch.nn.Transformer, and JoeyNMT where it is installed.

    Groups: same (all on the same batches), batches (ours of similar length, the plain loop's at random).
    Seconds are those of a thousand target tokens; a ratio of 0.5 is twice the throughput.

    Example:

    - `regard bench training --json > training.json`
    """
    measure("training", options, only=only)


def path_of(model: Path, what: str) -> Path:
    """The path in hf:PATH."""
    if prefix_of(model) != "hf":
        fail(f"{what} is for models of transformers: hf:PATH is needed; got {model}.")
    return Path(str(model).partition(":")[2])


def measure(name: str, options: BenchOptions, shown: str = "", **settings: Any) -> None:
    """Measure the cases of a file of `regard.bench`, say what is missing for it and what came out.

    A file has `cases`; it may have GROUPS of them, `missing`, and FEWER: what `cases` takes with --quick.
    """
    subject = import_module(f"regard.bench.{name}")
    for group in settings.get("only") or ():
        if group not in subject.GROUPS:
            fail(f'no group "{group}". Known: {", ".join(subject.GROUPS)}.')
    if hasattr(subject, "missing"):
        groups = [settings["only"] or subject.GROUPS] if "only" in settings else []
        for line in subject.missing(*groups):
            remark(line)
    if options.quick:
        settings |= getattr(subject, "FEWER", {})
    report(list(subject.cases(**settings)), shown or name, options)


def report(cases: "list[TimedCase]", shown: str, options: BenchOptions) -> None:
    """Measure the cases and say what came out of `regard bench` with these words."""
    from time import process_time

    from regard.bench.machine_facts import machine
    from regard.bench.speed_report import HEADINGS, cells, curves
    from regard.bench.timing import QUICK, Effort
    from regard.views import growth

    with exit_on_error("regard bench"):
        check_picture(options.plot)
    facts, rows = machine(), []
    command = f"regard bench {shown} --cpu-time" if options.cpu_time else f"regard bench {shown}"
    remark("{processor}, {cores} cores, {threads} threads, torch {torch}".format(**facts))
    if float(facts["load"] or 0) > 1 and not options.cpu_time:
        remark(f"the machine is busy (load {facts['load']}): what is measured now means little")
    with progress_bar("", len(cases)) as show:
        for number, case in enumerate(cases):
            show(number, description=" ".join(filter(None, (case.what, f"n={case.n}", case.scale))))
            effort = QUICK if options.quick else Effort()
            found = case.measure(replace(effort, clock=process_time) if options.cpu_time else effort)
            rows.append({**found.json(), "command": command, **facts})
    if options.as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        table = plain_table(*HEADINGS, right=("rows × n", "support", "ours", "ratio"), overflow="fold")
        for row in rows:
            table.add_row(*cells(row), style="red" if row["held"] is False else None)
        console(wide=150).print(table)
    if options.plot is not None and any(curves(rows).values()):
        save_picture(growth(**curves(rows)), options.plot, quiet=True)
        remark(options.plot)
    elif options.plot is not None:
        remark(f"nothing here was measured against n, so there is no {options.plot}")
