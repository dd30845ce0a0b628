"""The arena and the growth of costs, in small."""

import json
from dataclasses import replace

import pytest

from commands import run as regard_command
from regard.bench.arena_runs import best, fewer_steps, model_file, read_rows, run, write_rows
from regard.bench.arena_training import ArenaSettings
from regard.bench.cost_growth import Grown, bytes_of, expected, flops, slope

TINY = ArenaSettings(width=16, inner=16, heads=2, layers=1, batch=4, held=25)


def test_slopes_of_powers():
    found, half = slope([(n, 3.0 * n**1.5) for n in (512, 1024, 2048, 4096)])
    assert found == pytest.approx(1.5) and half == pytest.approx(0, abs=1e-6)
    row = Grown("full", "flops", tuple((n, float(n**2)) for n in (512, 1024)), *expected("full", "flops"))
    assert row.held and row.json()["slope"] == pytest.approx(2)


def test_two_points_have_no_interval_and_json_stays_json():
    row = Grown("full", "flops", ((512, 1.0), (1024, 4.0)), 2.0, 0.05)
    assert row.json()["interval"] is None
    assert "Infinity" not in json.dumps(row.json())


def test_chance_with_a_file_is_that_of_its_largest_class(tmp_path):
    file = tmp_path / "lists.tsv"
    file.write_text(
        "".join(f"{7 if i < 9 else i % 7}\t[MAX {7 if i < 9 else i % 7} 0 ]\n" for i in range(12))
    )
    (row,) = run(["listops"], ["full"], 0.001, tmp_path / "arena", files={"listops": file}, settings=TINY)
    assert row.chance == pytest.approx(9 / 12)


def test_flops_of_full_attention_are_those_of_two_products():
    n, width = 256, 64
    forward = 2 * 2 * n * n * width
    assert flops("full", n) == pytest.approx(3.5 * forward)  # torch's kernel forms q Kᵀ again in backward


def test_bytes_are_counted_and_weights_cost_bytes():
    assert bytes_of("full", 512, written=True) > 3 * bytes_of("full", 512) > 0


def test_rows_are_trained_and_kept(tmp_path):
    said = []
    arguments = (["listops", "retrieval"], ["full", "bigbird"], 0.002, tmp_path)
    rows = list(run(*arguments, pretrain=(True,), settings=TINY, tell=said.append))
    assert [row.task for row in rows] == ["listops", "listops", "retrieval", "retrieval"]
    assert [row.mechanism for row in rows] == ["full", "bigbird:block=16"] * 2
    assert all(0 <= row.accuracy <= 1 and row.bytes > 0 and row.flops > 0 and row.pretrained for row in rows)
    assert read_rows(tmp_path) == rows
    said.clear()
    assert list(run(*arguments, pretrain=(True,), settings=TINY, tell=said.append)) == rows
    assert not said
    assert set(best(rows)) == {"listops", "retrieval"}


def test_rows_can_be_audited_later(tmp_path):
    arguments = (["retrieval"], ["synthesizer"], 0.001, tmp_path)
    (row,) = run(*arguments, settings=TINY)
    assert row.audit is None
    (row,) = run(*arguments, settings=TINY, audit=True)
    assert "encoder.0.attention do not depend on the keys" in row.audit["answer"]


def test_rows_that_are_added_later_have_as_many_steps(tmp_path):
    (row,) = run(["retrieval"], ["full"], 0.005, tmp_path, settings=TINY)
    write_rows(tmp_path, [replace(row, planned=(0, 3), steps=3)])  # of an earlier run, on a slower machine
    first, other = run(["retrieval"], ["full", "local"], 0.005, tmp_path, settings=TINY)
    assert (first.steps, other.planned) == (3, (0, 3))
    assert fewer_steps([first]) == [] and fewer_steps([replace(first, steps=2)]) != []


def test_each_row_has_a_model_and_a_file_of_its_own(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("label\ttext\tsecond\n" + "".join(f"{i % 2}\ta{i}\tb{i}\n" for i in range(30)))
    folder, given = tmp_path / "arena", {"retrieval": file}
    rows = [*run(["retrieval"], ["full"], 0.001, folder, settings=TINY)]
    rows += run(["retrieval"], ["full"], 0.0011, folder, settings=TINY)
    rows += run(["retrieval"], ["full"], 0.001, folder, files=given, settings=TINY)
    file.write_text(file.read_text() + "1\tother\twords\n")
    rows += run(["retrieval"], ["full"], 0.001, folder, files=given, settings=TINY)
    assert len({model_file(folder, row) for row in rows}) == 4
    assert read_rows(folder) == rows
    model_file(folder, rows[0]).unlink()
    with pytest.raises(ValueError, match="the model of this row is gone"):
        list(run(["retrieval"], ["full"], 0.001, folder, settings=TINY, audit=True))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tasks", "chess"),
        ("--mechanisms", "fully"),
        ("--mechanisms", "local:windows=3"),
        ("--minutes", "0"),
        ("--data", "listops"),
        ("--data", "listops=missing.tsv"),
        ("--plot", "picture.xyz"),
        ("--plot", "picture.html"),
    ],
)
def test_bad_arguments_are_one_line(arguments, tmp_path):
    done = regard_command("arena", *arguments, "--out", str(tmp_path / "arena"))
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "arena").exists()


def test_a_file_that_is_no_listops_is_one_line(tmp_path):
    file = tmp_path / "texts.tsv"
    file.write_text("label\ttext\nneg\ta bad film\n")
    done = regard_command(
        "arena", "--tasks", "listops", "--data", f"listops={file}", "--out", str(tmp_path / "a")
    )
    assert done.exit_code == 2
    assert "texts.tsv" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_growth_prints_rows(tmp_path):
    done = regard_command(
        "bench", "growth", "--quick", "--mechanisms", "linformer", "--only", "flops", "--json"
    )
    (row,) = json.loads(done.stdout)
    assert row["what"].startswith("linformer") and row["slope"] == pytest.approx(1, abs=0.05)
    assert regard_command("bench", "growth", "--mechanisms", "fully").exit_code == 2
