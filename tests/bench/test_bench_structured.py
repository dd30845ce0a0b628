"""The benchmark of the structured maps: peers compute what ours do, and every result is complete."""

import json
import sys
from types import ModuleType

import pytest
import torch
from typer.testing import CliRunner

from bench.complete_rows import MUST, check_complete
from regard import MAPS
from regard.bench import structured, structured_peers
from regard.bench.timing import Effort
from regard.cli import app

ONCE = Effort(seconds=0.0, least=1, most=1)


@pytest.fixture(scope="module")
def results():
    smaller = pytest.MonkeyPatch()
    smaller.setattr(structured, "ROWS", 16)
    smaller.setattr(structured, "BATCH", 4)
    found = [case.measure(ONCE).json() for case in structured.cases(sizes=[6])]
    smaller.undo()
    return found


def scores(n=12, rows=8):
    return torch.randn(rows, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_torch_struct_gives_our_chain():
    pytest.importorskip("torch_struct")
    x = scores().requires_grad_()
    ours, theirs = MAPS["chain"](x), structured_peers.torch_struct_chain(x)
    torch.testing.assert_close(theirs, ours)
    g = scores(rows=8).flip(0)
    grads = [torch.autograd.grad(p, x, g)[0] for p in (ours, theirs)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", ["budget", "chain"])
def test_the_qp_gives_our_sparsemap(name):
    pytest.importorskip("osqp")
    x = scores()
    solve = getattr(structured_peers, f"osqp_{name}")(x.shape[-1])
    torch.testing.assert_close(solve(x), MAPS[f"sparsemap_{name}"](x), rtol=0, atol=2e-4)


def test_the_c_library_gives_our_prox():
    pytest.importorskip("condat_tv")
    x = scores(n=200, rows=4).numpy()
    ours, theirs = (
        torch.from_numpy(prox(x)) for prox in (structured_peers.our_prox, structured_peers.condat_prox)
    )
    torch.testing.assert_close(ours, theirs)


def test_our_prox_is_the_prox():
    """Against one that knows nothing of strings: y = x − Dᵀu with |u| ≤ λ, by projected gradient."""
    x = scores(n=12, rows=5)
    u = torch.zeros(5, 11, dtype=torch.float64)
    for _ in range(20_000):
        y = x + torch.diff(torch.nn.functional.pad(u, (1, 1)))
        u = (u + 0.25 * torch.diff(y)).clamp(-structured_peers.STRENGTH, structured_peers.STRENGTH)
    torch.testing.assert_close(torch.from_numpy(structured_peers.our_prox(x.numpy())), y, rtol=0, atol=1e-6)


def test_lp_sparsemap_is_asked_row_by_row(monkeypatch):
    """A stand-in with the interface of lpsmap, which cannot be installed everywhere: its calls alone."""

    class Graph:
        def variable_from(self, theta):
            self.variable = ModuleType("variable")
            self.variable.theta = theta
            return self.variable

        def add(self, factor):
            self.budget = factor

        def solve(self):
            self.variable.value = MAPS["sparsemap_budget"](self.variable.theta, k=self.budget)

    lpsmap = ModuleType("lpsmap")
    lpsmap.TorchFactorGraph, lpsmap.Budget = Graph, lambda variable, budget: budget
    monkeypatch.setitem(sys.modules, "lpsmap", lpsmap)
    monkeypatch.setattr(structured, "installed", lambda module: module == "lpsmap")
    x = scores().requires_grad_()
    weights = structured_peers.lpsmap_budget(x)
    torch.testing.assert_close(weights, MAPS["sparsemap_budget"](x, k=structured_peers.K))
    assert torch.autograd.grad(weights.square().sum(), x)[0].abs().sum() > 0
    (case,) = structured.cases(["sparsemap"], [6])
    assert case.claim.against == "lp-sparsemap, row by row"
    assert case.measure(ONCE).seconds > 0


def test_every_result_is_complete(results):
    check_complete(results)
    assert results


def test_all_groups_and_all_structured_maps_are_there(results):
    groups = {row["group"] for row in results}
    assert groups >= {"fusedmax", "hot"}
    assert "chain" in groups or not structured.installed("torch_struct")
    hot = {row["what"].split(",")[0] for row in results if row["group"] == "hot"}
    matrices = {name for name, entry in MAPS.items() if entry.acts_on == "matrix" and not entry.stochastic}
    assert hot >= matrices
    assert hot >= {name for name, entry in MAPS.items() if entry.neighbours and not entry.stochastic}
    assert "sparsemap_budget" in hot


def test_limits_are_those_of_what_must_hold(monkeypatch):
    monkeypatch.setattr(structured, "installed", lambda module: module != "lpsmap")
    limits = {(case.group, case.what, case.n): case.claim.limit for case in structured.cases()}
    for n in (50, 128, 512):
        assert limits["chain", "chain", n] == 1 / 10
    for name in ("sparsemap_budget", "sparsemap_chain"):
        assert limits["sparsemap", name, 50] == 1 / 20
        assert limits["sparsemap", name, 512] is None
    assert limits["fusedmax", "fusedmax", 512] == 12
    assert {limit for (group, *_), limit in limits.items() if group == "hot"} == {None}
    assert all(case.claim.aim == 1 / 20 for case in structured.cases(["chain"]))


def test_without_its_peers_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(structured, "installed", lambda module: False)
    assert {case.group for case in structured.cases()} == {"fusedmax", "hot"}
    done = CliRunner().invoke(app, ["bench", "structured", "--only", "chain", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == []
    assert "torch-struct is not here" in done.stderr and "pip install 'regard[peers]'" in done.stderr


def test_the_command_prints_json(monkeypatch):
    monkeypatch.setattr(structured, "ROWS", 16)
    done = CliRunner().invoke(app, ["bench", "structured", "--only", "fusedmax", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["scale"] for row in rows[:3]] == ["normal", "peaked", "flat"]
    assert all(row.keys() >= MUST | {"command", "threads", "torch", "torch-struct"} for row in rows)
    assert rows[0]["command"] == "regard bench structured"


def test_the_command_complains_of_an_unknown_group():
    done = CliRunner().invoke(app, ["bench", "structured", "--only", "nope"])
    assert done.exit_code == 2
    assert 'no group "nope". Known: chain, sparsemap, fusedmax, hot.' in done.stderr
