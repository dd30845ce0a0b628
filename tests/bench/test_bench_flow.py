"""The benchmark of flow: peers compute what ours does, and every result is complete."""

import json

import pytest
import torch
from typer.testing import CliRunner

import regard.cli.bench  # noqa: F401
from regard.bench import flow
from regard.bench.timing import Effort
from regard.cli import app

ONCE = Effort(seconds=0.0, least=1, most=1)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(flow, "LAYERS", 3)
    monkeypatch.setattr(flow, "TOKENS", 4)


@pytest.mark.parametrize("name", flow.PEERS)
@pytest.mark.parametrize("scale", ["normal", "peaked", "flat"])
def test_peers_find_our_flows(name, scale):
    pytest.importorskip(name)
    widths = flow.widths(scale, 4, 5)
    peer, ours = flow.PEERS[name](widths), flow.ours(widths)
    theirs = torch.tensor([[peer(i, j) for j in range(5)] for i in range(5)], dtype=torch.float64)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_widths_are_whole_units_for_scipy():
    units = flow.widths("peaked", 2, 6) / flow.UNIT
    assert torch.equal(units, units.round()) and units.max() < 2**31 and units.min() >= 0


def test_every_result_is_complete(small):
    rows = [case.measure(ONCE).json() for case in flow.cases()]
    assert {row["group"] for row in rows} >= {"compiled"}
    for row in rows:
        assert row["seconds"] > 0 and row["held"] == (row["ratio"] <= row["limit"])
        assert row["ratio"] == pytest.approx(row["seconds"] / row["against_seconds"])
        json.dumps(row)


def test_another_flow_is_noticed(small, monkeypatch):
    monkeypatch.setitem(flow.PEERS, "scipy", lambda widths: lambda i, j: 2.0)
    with pytest.raises(AssertionError, match="scipy has another flow"):
        flow._measure(["scipy"], "normal", ONCE)


def test_limits_and_missing_peers(monkeypatch):
    limits = {case.group: case.claim.limit for case in flow.cases()}
    assert limits["compiled"] == 1 / 3 and limits.get("networkx", 1 / 300) == 1 / 300
    monkeypatch.setattr(flow, "installed", lambda module: module == "scipy")
    assert {(case.group, case.claim.against) for case in flow.cases()} == {
        ("compiled", "the faster of scipy")
    }
    assert [line.split()[0] for line in flow.missing(flow.GROUPS)] == ["networkx", "igraph"]


def test_the_command(small):
    done = CliRunner().invoke(app, ["bench", "flow", "--only", "compiled", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert row["command"] == "regard bench flow" and row["scale"] == "normal"
    assert CliRunner().invoke(app, ["bench", "flow", "--only", "nope"]).exit_code == 2
