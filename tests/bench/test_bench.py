"""Benchmarks measure what they say and report it completely; how fast anything is, is not tested here."""

import json
from importlib import import_module
from inspect import signature

import pytest
from typer.testing import CliRunner

from bench.complete_rows import MUST, check_complete
from regard.bench import attention_speed as attention
from regard.bench import imports, memory, timed_case
from regard.bench import machine_facts as machine
from regard.bench import map_speed as maps
from regard.bench import speed_report as report
from regard.bench.timing import Effort, medians
from regard.cli import app

ONCE = Effort(seconds=0.0, least=1, most=1)
TINY_ROWS = [(8, 16), (8, 32)]


@pytest.fixture(scope="module")
def results():
    groups = ["rows", "learned", "fusedmax", "peers"]
    cases = maps.cases(groups, TINY_ROWS) + attention.cases(
        ["sparse", "settings", "softmax", "masks", "window", "mechanisms", "heads", "decoding"], [32]
    )
    return [one.measure(ONCE).json() for one in cases]


def test_every_result_is_complete(results):
    check_complete(results)
    assert results


def test_all_groups_are_there(results):
    assert {row["group"] for row in results} == {*maps.GROUPS, *attention.GROUPS} - {"memory", "import"}


def test_sparse_maps_come_with_their_support(results):
    sparse = [row for row in results if "sparsemax" in row["what"] or "entmax" in row["what"]]
    assert sparse
    assert all(1 <= row["support"] <= row["n"] for row in sparse)


def test_peaked_rows_have_less_support_than_flat_ones(results):
    support = {row["scale"]: row["support"] for row in results if row["what"].startswith("sparsemax")}
    assert support["peaked"] < support["normal"] < support["flat"]


@pytest.mark.parametrize(
    ("n", "scale", "limits"),
    [
        (512, "normal", {("sparsemax", 1.3), ("entmax15", 1.3)}),
        (64, "peaked", {("sparsemax", 2.7), ("entmax15", 2.7)}),
        (64, "flat", {("sparsemax", None), ("entmax15", None)}),
        (4096, "flat", {("sparsemax", 3.0), ("entmax15", 4.0)}),
    ],
)
def test_limits_of_row_maps(n, scale, limits):
    cases = [one for one in maps.cases(["rows"]) if (one.n, one.scale) == (n, scale)]
    assert {(one.what, one.claim.limit) for one in cases} == limits


@pytest.mark.parametrize(
    ("n", "scale", "limits"),
    [
        (512, "normal", {("forward", None), ("forward + backward", None)}),
        (2048, "normal", {("forward", 1.4), ("forward + backward", 0.6)}),
        (8192, "peaked", {("forward", 1.1), ("forward + backward", 0.4)}),
        (8192, "flat", {("forward", None), ("forward + backward", 2.5)}),
    ],
)
def test_limits_of_sparse_attention(n, scale, limits):
    cases = [one for one in attention.cases(["sparse"]) if (one.n, one.scale) == (n, scale)]
    assert {(one.mode, one.claim.limit) for one in cases} == limits


def test_limit_of_memory():
    limits = {(one.what.split(",")[0], one.n): one.claim.limit for one in attention.cases(["memory"])}
    assert limits == {
        ("scaled dot + entmax15", 2048): None,
        ("scaled dot + entmax15", 8192): None,
        ("scaled dot + entmax15", 16384): 1.75,
        ("8 : 2 heads", 2048): 1.0,
        ("a map of one's own", 8192): 3.0,
    }


def test_without_the_package_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(maps, "without_peers", lambda: True)
    groups = {one.group for one in maps.cases(sizes=TINY_ROWS)}
    assert groups == {*maps.GROUPS} - {"peers"}


def test_candidates_take_turns():
    calls = []
    times = medians([lambda: calls.append("a"), lambda: calls.append("b")], Effort(0.0, 3, 3))
    assert len(times) == 2
    turns = [c for i, c in enumerate(calls) if i == 0 or calls[i - 1] != c]
    assert turns == ["a", "b"] * (len(turns) // 2)
    assert len(turns) == 2 * (1 + 1 + 3)  # warm-up, a first look, three rounds


def test_memory_sees_what_is_taken():
    mebibytes, seconds = memory.peak("softmax", 4096, rows=1024)  # weights and gradient: 16 MiB each
    assert 16 <= mebibytes <= 100
    assert seconds > 0


def test_memory_that_cannot_be_measured_is_an_error():
    with pytest.raises(RuntimeError, match=r"nope.*failed"):
        memory.peak("nope", 8)


def test_memory_ratio_is_of_memory():
    found = timed_case.Measured(2.0, 1.0, mebibytes=30.0, against_mebibytes=10.0)
    assert found.ratio == 3.0


def test_imports_are_timed():
    (seconds,) = imports.seconds_to_import(["json"], rounds=1)
    assert seconds > 0


def test_the_machine_is_named():
    facts = machine.machine()
    assert facts.keys() >= {"date", "processor", "cores", "threads", "python", "regard", "torch", "numba"}
    assert facts["threads"] >= 1


def test_tables_have_every_result_and_every_claim(results):
    lines = report.details(results).splitlines()
    assert len(lines) == 2 + len(results)
    assert all(line.count(" | ") == len(report.HEADINGS) - 1 for line in lines)
    claims = {(row["claim"], row["against"]) for row in results}
    assert len(report.summary(results).splitlines()) == 2 + len(claims)


def test_a_claim_holds_only_if_all_its_results_do(results):
    rows = [{**results[0], "claim": "c", "ratio": r, "limit": 1.0, "held": r <= 1} for r in (0.5, 2.0)]
    assert (
        report.summary(rows).splitlines()[-1]
        == f"| c | {rows[0]['against']} | 0.50 to 2.00 × | 1.00 × (aim: 1.50) | no |"
    )


def test_curves_are_against_n(results):
    curves = report.curves(results)["seconds"]
    assert [n for n, _ in curves["sparsemax, forward + backward"]] == [16, 32]
    assert [n for n, _ in curves["torch.softmax, forward + backward"]] == [16, 32]


def test_a_row_of_one_n_is_no_curve_and_a_missing_mode_has_no_name(results):
    both = [{**results[0], "n": n, "mode": None, "against": "torch.softmax"} for n in (16, 32)]
    once = {**both[0], "what": "appending", "against": "a step"}
    assert set(report.curves([*both, once])["seconds"]) == {results[0]["what"], "torch.softmax"}
    assert set(report.curves([once])["seconds"]) == {"appending", "a step"}


def test_figures_are_short():
    assert [report.duration(s) for s in (2.0, 0.0123, 4.56e-6)] == ["2 s", "12.3 ms", "4.56 µs"]
    assert [report.ratio(x) for x in (1.234, 0.0123)] == ["1.23", "0.012"]


def test_the_command_prints_json_and_draws(tmp_path, monkeypatch):
    monkeypatch.setitem(maps.FEWER, "sizes", TINY_ROWS)
    file = tmp_path / "growth.svg"
    done = CliRunner().invoke(
        app, ["bench", "maps", "--only", "rows", "--quick", "--json", "--plot", str(file)]
    )
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert len(rows) == 2 * 2 * 3
    assert all(row.keys() >= MUST | {"command", "threads", "torch"} for row in rows)
    assert "threads" in done.stderr
    assert file.exists()


def test_the_command_says_when_there_is_nothing_to_draw(tmp_path, monkeypatch):
    monkeypatch.setattr(attention, "seconds_to_import", lambda modules, rounds: [1.0, 1.0])
    file = tmp_path / "growth.svg"
    done = CliRunner().invoke(app, ["bench", "attention", "--only", "import", "--plot", str(file)])
    assert done.exit_code == 0, done.output
    assert "nothing here was measured against n" in done.stderr
    assert not file.exists()


def test_the_command_shows_a_table():
    done = CliRunner().invoke(
        app, ["bench", "attention", "--only", "decoding", "--quick"], env={"COLUMNS": "150"}
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.split()[:2] == ["what", "mode"]
    assert "entmax15" in done.stdout


def test_the_command_says_when_the_package_is_missing(monkeypatch):
    monkeypatch.setattr(maps, "without_peers", lambda: True)
    done = CliRunner().invoke(app, ["bench", "maps", "--only", "peers", "--json"])
    assert done.exit_code == 0, done.output
    assert "pip install 'regard[peers]'" in done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize(
    "name", ["attention", "decoding", "drawing", "flow", "maps", "serving", "structured", "training"]
)
def test_what_quick_gives_to_cases_is_what_they_take(name):
    file = {"attention": "attention_speed", "maps": "map_speed"}.get(name, name)
    subject = import_module(f"regard.bench.{file}")
    fewer = getattr(subject, "FEWER", {})
    assert set(fewer) <= set(signature(subject.cases).parameters)
    runner = CliRunner().invoke(app, ["bench", name, "--help"])
    assert runner.exit_code == 0 and "--quick" in runner.stdout
