"""regard bench: regard against torch and other packages; `regard.bench` has what is measured."""

import json
from importlib import import_module
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
Quick = Annotated[bool, Option("--quick", help="Fewer rounds, no large sizes: a look, not a measurement.")]
AsJson = Annotated[bool, Option("--json", help="Print a list of objects: what, against, ratio, seconds, …")]
Plot = Annotated[
    Path | None, Option("--plot", metavar="FILE", help="Draw time and memory against n: .png, .svg or .pdf.")
]
CpuTime = Annotated[
    bool, Option("--cpu-time", help="Seconds of the processor, not of the clock: for one thread.")
]


@bench.command()
def attention(
    only: Only = None,
    quick: Quick = False,
    cpu_time: CpuTime = False,
    as_json: AsJson = False,
    plot: Plot = None,
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
        measure("attention_speed", quick, as_json, plot, cpu_time, "attention", only=only)
        return
    from regard.bench.attention_of_run import of_run

    try:
        cases = of_run(run)
    except (OSError, ValueError) as error:
        fail(error)
    report(cases, f"regard bench attention --run {run}", quick, as_json, plot, cpu_time)


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


@bench.command()
def decoding(
    quick: Quick = False,
    cpu_time: CpuTime = False,
    as_json: AsJson = False,
    plot: Plot = None,
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
        if prefix_of(model) != "hf":
            fail(f"--model is for models of transformers: hf:PATH is needed; got {model}.")
        path = Path(str(model).partition(":")[2])
        with exit_on_error("regard bench decoding"):
            command = f"decoding --model hf:{path.name}"
            measure("certified_generation", quick, as_json, None, cpu_time, command, path=path, text=text)
        return
    if keys is None:
        measure("decoding", quick, as_json, plot, cpu_time)
        return
    from regard.bench.certified_step import layers

    try:
        layers(keys)
    except ValueError as error:
        fail(error)
    command, threads = f"decoding --keys {keys.name}", 1 if cpu_time else 2
    measure("certified_step", quick, as_json, plot, cpu_time, command, keys=keys, threads=threads)


@bench.command()
def drawing(quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure how long a browser takes to draw maps of 20, 128 and 512 tokens, beside the 100 ms one notices.

    Needs Chromium (`make browser`) and Playwright (`pip install playwright`).

    Example: `regard bench drawing --json > drawing.json`
    """
    measure("drawing", quick, as_json)


@bench.command()
def flow(only: Only = None, quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure attention flow, 6 layers × 32 tokens and all pairs, against networkx, scipy and igraph.

    Groups: networkx, compiled (the faster of scipy and igraph). Every flow that a peer is asked for must
    equal ours to 1e-9.

    Example: `regard bench flow --json > flow.json`
    """
    measure("flow", quick, as_json, only=only)


@bench.command()
def growth(
    mechanisms: str = Option("all", metavar="A,B,…", help="Mechanisms, by comma; or all."),
    only: Annotated[
        list[str] | None,
        Option("--only", metavar="QUANTITY", help="flops, bytes, bytes_materialised or seconds; repeatable."),
    ] = None,
    largest: int = Option(16384, min=1024, metavar="N", help="The largest n; the smallest is 256."),
    quick: Quick = False,
    as_json: Annotated[
        bool, Option("--json", help="Print a list of objects: what, slope, interval, …")
    ] = False,
    plot: Plot = None,
) -> None:
    """Measure how FLOPs, peak bytes and time of each mechanism grow with n, forward + backward.

    FLOPs and bytes are counted, not timed; slopes are of log against log, n = 512 … 8,192, with an interval.
    With all mechanisms and n up to 16,384 it takes some minutes.

    Examples:

    - `regard bench growth --json > growth.json`

    - `regard bench growth --mechanisms full,local,performer --only flops --plot growth.svg`
    """
    from regard.cli.bench_growth import run_growth

    run_growth(mechanisms, only, 2048 if quick else largest, as_json, plot)


@bench.command()
def language(
    only: Only = None, quick: Quick = False, cpu_time: CpuTime = False, as_json: AsJson = False
) -> None:
    """Measure language models against a plain torch loop and the `generate` of transformers.

    Groups: training, map (entmax15 against softmax at n = 2,048), memory (segments with a memory against a
    window that slides by a token), writing (needs transformers: `pip install 'regard[hf]'`).

    Example: `regard bench language --json > language.json`
    """
    measure("language_speed", quick, as_json, None, cpu_time, "language", only=only)


@bench.command()
def maps(only: Only = None, quick: Quick = False, as_json: AsJson = False, plot: Plot = None) -> None:
    """Measure the row maps, forward + backward, against torch.softmax and the `entmax` package.

    Groups: rows, learned, fusedmax, memory, peers. Candidates take turns; the figures are medians.

    Examples:

    - `regard bench maps --quick`

    - `regard bench maps --only rows --only peers --json > maps.json`
    """
    measure("map_speed", quick, as_json, plot, command="maps", only=only)


@bench.command()
def serving(
    clients: list[int] = Option([16, 200], min=1, help="That ask at the same time; may be repeated."),
    seconds: float = Option(30.0, min=1, help="For how long."),
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Measure `regard serve` under many clients at once: answers, waiting, memory. Any error ends it.

    Example: `regard bench serving --clients 16 --clients 200 --seconds 30`
    """
    measure("serving", quick, as_json, clients=clients, seconds=seconds)


@bench.command()
def structured(only: Only = None, quick: Quick = False, as_json: AsJson = False, plot: Plot = None) -> None:
    """Measure the structured maps against torch-struct, a QP solver (OSQP), torch.softmax and condat-tv.

    Groups: chain, sparsemap, fusedmax, hot (every structured map at n = 512, batch 64; matchings and trees at
    m = n = 32). A peer that is not installed is left out, with a line that says how to get it.

    Examples:

    - `regard bench structured --quick`

    - `regard bench structured --only chain --only sparsemap --json > structured.json`
    """
    measure("structured", quick, as_json, plot, only=only)


@bench.command("swapped-model")
def swapped_model(
    model: Annotated[Path, typer.Argument(metavar="hf:PATH", help="A language model of transformers.")],
    text: Path | None = Option(None, metavar="FILE", help="What it reads; random tokens if it is not given."),
    only: Only = None,
    quick: Quick = False,
    cpu_time: CpuTime = False,
    as_json: AsJson = False,
) -> None:
    """Measure a forward pass of a language model through regard against its own SDPA attention, in turn.

    Groups: softmax (1,024 tokens), entmax15 (4,096 tokens, scores × 0.35). Needs transformers: `pip install
    'regard[hf]'`.

    Example: `regard bench swapped-model hf:SmolLM2-135M --text wiki.test.txt --only softmax`
    """
    if prefix_of(model) != "hf":
        fail(f"swapped-model is for models of transformers: hf:PATH is needed; got {model}.")
    with exit_on_error("regard bench swapped-model"):
        path = Path(str(model).partition(":")[2])
        measure(
            "swapped_model", quick, as_json, None, cpu_time, "swapped-model", path=path, text=text, only=only
        )


@bench.command()
def training(only: Only = None, quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure training against a plain loop around torch.nn.Transformer, and JoeyNMT where it is installed.

    Groups: same (all on the same batches), batches (ours of similar length, the plain loop's at random).
    Seconds are those of a thousand target tokens; a ratio of 0.5 is twice the throughput.

    Example:

    - `regard bench training --json > training.json`
    """
    measure("training", quick, as_json, only=only)


def measure(
    name: str,
    quick: bool,
    as_json: bool,
    plot: Path | None = None,
    cpu_time: bool = False,
    command: str = "",
    **options: Any,
) -> None:
    """Measure the cases of a file of `regard.bench`, say what is missing for it and what came out.

    A file has `cases`; it may have GROUPS of them, `missing`, and FEWER: what `cases` takes with --quick.
    """
    subject = import_module(f"regard.bench.{name}")
    for group in options.get("only") or ():
        if group not in subject.GROUPS:
            fail(f'no group "{group}". Known: {", ".join(subject.GROUPS)}.')
    if hasattr(subject, "missing"):
        groups = [options["only"] or subject.GROUPS] if "only" in options else []
        for line in subject.missing(*groups):
            remark(line)
    if quick:
        options |= getattr(subject, "FEWER", {})
    named = f"regard bench {command or name}"
    report(list(subject.cases(**options)), named, quick, as_json, plot, cpu_time)


def report(
    cases: "list[TimedCase]",
    command: str,
    quick: bool,
    as_json: bool,
    plot: Path | None,
    cpu_time: bool = False,
) -> None:
    """Measure the cases and say what came out."""
    from dataclasses import replace
    from time import process_time

    from regard.bench.machine_facts import machine
    from regard.bench.speed_report import HEADINGS, cells, curves
    from regard.bench.timing import QUICK, Effort
    from regard.views import growth

    with exit_on_error("regard bench"):
        check_picture(plot)
    facts, rows = machine(), []
    command = f"{command} --cpu-time" if cpu_time else command
    remark("{processor}, {cores} cores, {threads} threads, torch {torch}".format(**facts))
    if float(facts["load"] or 0) > 1 and not cpu_time:
        remark(f"the machine is busy (load {facts['load']}): what is measured now means little")
    with progress_bar("", len(cases)) as show:
        for number, case in enumerate(cases):
            show(number, description=" ".join(filter(None, (case.what, f"n={case.n}", case.scale))))
            effort = QUICK if quick else Effort()
            found = case.measure(replace(effort, clock=process_time) if cpu_time else effort)
            rows.append({**found.json(), "command": command, **facts})
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        table = plain_table(*HEADINGS, right=("rows × n", "support", "ours", "ratio"), overflow="fold")
        for row in rows:
            table.add_row(*cells(row), style="red" if row["held"] is False else None)
        console(wide=150).print(table)
    if plot is not None and any(curves(rows).values()):
        save_picture(growth(**curves(rows)), plot, quiet=True)
        remark(plot)
    elif plot is not None:
        remark(f"nothing here was measured against n, so there is no {plot}")
