"""Systems that look at pictures, by their commands: train, evaluate, classify, caption, explain, page."""

import gzip
import json
import struct
from base64 import b64decode

import numpy as np
import pytest
import torch

import regard
from commands import run
from regard.data import DataError
from regard.data.corpora.scenes import asked, captioned
from regard.data.encoded import Encoded
from regard.data.images import ImageSize, in_colour
from regard.runs import fit, resolve
from regard.tasks import TASKS
from regard.tasks.image import Augmentation, ImageTraining, augmented
from regard.tasks.image_case import OverRegions
from regard.tasks.picture_task import completed
from regard.training.processes import Team
from regard.views.image_weights import spread
from regard.views.png import data_url

Image = pytest.importorskip("PIL.Image")
SMALL = {"widths": (4, 8), "blocks": (1, 0)}


def idx(values: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def save(path, pixels: np.ndarray) -> str:
    path.write_bytes(b64decode(data_url(in_colour(pixels)).split(",")[1]))
    return str(path)


@pytest.fixture(scope="module")
def stripes(tmp_path_factory):
    """Two IDX files: pictures with upright (0) or level (1) stripes."""
    folder = tmp_path_factory.mktemp("idx")
    chance = np.random.default_rng(0)
    labels = np.arange(80) % 2
    pixels = chance.integers(0, 60, (80, 12, 12))
    for k, label in enumerate(labels):
        (pixels[k].T if label == 0 else pixels[k])[k % 3 :: 3] += 150
    (folder / "images.gz").write_bytes(gzip.compress(idx(pixels)))
    (folder / "labels").write_bytes(idx(labels))
    save(folder / "0.png", pixels[0:1].astype(np.uint8))
    save(folder / "1.png", pixels[1:2].astype(np.uint8))
    return folder


@pytest.fixture(scope="module")
def classifier(stripes, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "stripes"
    done = run(
        "train", "image", "--images", stripes / "images.gz", "--labels", stripes / "labels", "--out", out,
        "--label-names", "0=upright,1=level", "--steps", 40, "--set", "model.widths=8,8",
        "--set", "model.blocks=1,0",
        "--set", "training.tokens=16", "--device", "cpu",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return out


def refused(done) -> str:
    assert done.exit_code == 2 and "Traceback" not in done.output, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("regard")]
    return line


def test_idx_files_to_a_classifier_that_answers(stripes, classifier):
    files = "--images", stripes / "images.gz", "--labels", stripes / "labels"
    found = json.loads(run("evaluate", classifier, *files, "--json").stdout)
    assert found["accuracy"] > 0.9 and found["pictures"] == 80
    done = run("classify", classifier, stripes / "0.png", stripes / "1.png")
    assert done.stdout.split() == ["upright", "level"]
    facts = json.loads(run("classify", classifier, "--json", stripes / "0.png").stdout)
    assert facts["label"] == "upright" and facts["grid"] == [6, 6]
    assert np.sum(facts["weights"]) == pytest.approx(1, abs=1e-5)


def test_names_of_files_can_come_on_standard_input(stripes, classifier):
    lines = f"{stripes / '1.png'}\n\n{stripes / '0.png'}\n"
    assert run("classify", classifier, given=lines).stdout.splitlines() == ["level", "", "upright"]


def test_a_bad_picture_among_good_ones_is_named_and_the_others_are_answered(stripes, classifier, tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    done = run("classify", classifier, stripes / "0.png", tmp_path / "text.png")
    assert done.exit_code == 2 and done.stdout.splitlines() == ["upright", ""]
    assert "not a picture" in done.stderr and "Traceback" not in done.output


def test_bad_data_is_one_sentence_and_leaves_nothing(stripes, tmp_path):
    (tmp_path / "classes" / "a").mkdir(parents=True)
    (tmp_path / "classes" / "b").mkdir()
    save(tmp_path / "classes" / "a" / "1.png", np.zeros((1, 8, 8), np.uint8))
    save(tmp_path / "classes" / "a" / "2.png", np.zeros((1, 8, 8), np.uint8))
    out = tmp_path / "run"
    assert "no picture" in refused(run("train", "image", "--images", tmp_path / "classes", "--out", out))
    save(tmp_path / "classes" / "b" / "1.png", np.zeros((1, 8, 8), np.uint8))
    assert "one picture" in refused(run("train", "image", "--images", tmp_path / "classes", "--out", out))
    (tmp_path / "classes" / "b" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "b/2.png" in refused(run("train", "image", "--images", tmp_path / "classes", "--out", out))
    assert "--labels" in refused(run("train", "image", "--images", stripes / "images.gz", "--out", out))
    nothing = run(
        "train", "image", "--images", tmp_path / "none", "--labels", stripes / "labels", "--out", out
    )
    assert "no such file" in refused(nothing)
    assert not out.exists()


def test_a_folder_of_classes_trains_and_evaluates(tmp_path):
    for label, shade in (("dark", 20), ("light", 220)):
        (tmp_path / "p" / label).mkdir(parents=True)
        for k in range(8):
            save(tmp_path / "p" / label / f"{k}.png", np.full((3, 9, 12), shade + k, np.uint8))
    options = (
        "--set",
        "model.widths=4,4",
        "--set",
        "model.blocks=0,0",
        "--steps",
        30,
        "--set",
        "training.tokens=8",
    )
    done = run("train", "image", "--images", tmp_path / "p", "--out", tmp_path / "run", *options)
    assert done.exit_code == 0, done.output
    (tmp_path / "q" / "light").mkdir(parents=True)
    save(
        tmp_path / "q" / "light" / "a.png", np.full((3, 40, 20), 210, np.uint8)
    )  # one picture is enough here
    found = json.loads(run("evaluate", tmp_path / "run", "--images", tmp_path / "q", "--json").stdout)
    assert found["accuracy"] == 1.0


def test_a_moved_run_opens_without_its_files(stripes, classifier, tmp_path):
    copy = tmp_path / "moved"
    copy.mkdir()
    for file in classifier.iterdir():
        if file.is_file():
            text = file.read_bytes().replace(str(stripes).encode(), b"/nowhere")
            (copy / file.name).write_bytes(text)
    assert regard.load(copy).classify([str(stripes / "0.png")])[0].label == "upright"


def test_steps_come_from_the_number_and_size_of_the_pictures():
    few = completed(ImageTraining(), 500, ImageSize(1, 28, 28), 60)
    many = completed(ImageTraining(), 60_000, ImageSize(1, 28, 28), 60)
    large = completed(ImageTraining(), 60_000, ImageSize(3, 64, 64), 60)
    assert 300 <= few.steps < many.steps and large.steps < many.steps
    assert many.warmup == many.steps // 10 and many.validate == many.steps // 20
    assert completed(ImageTraining(steps=7), 60_000, ImageSize(1, 28, 28), 60).steps == 7


def test_augmentation_moves_and_mirrors_and_can_be_off():
    x = torch.arange(2 * 3 * 5 * 6).view(2, 3, 5, 6).byte()
    assert torch.equal(augmented(x, Augmentation(shift=0, flip=False)), x)
    torch.manual_seed(0)
    flips = [augmented(x, Augmentation(shift=0))[0] for _ in range(20)]
    assert all(torch.equal(one, x[0]) or torch.equal(one, x[0].flip(-1)) for one in flips)
    assert any(torch.equal(one, x[0].flip(-1)) for one in flips)
    moved = [augmented(x, Augmentation(shift=1, flip=False))[1] for _ in range(30)]
    padded = torch.nn.functional.pad(x[1:].float(), (1, 1, 1, 1), mode="replicate")[0].byte()
    every = [padded[:, i : i + 5, j : j + 6] for i in range(3) for j in range(3)]
    assert all(any(torch.equal(one, other) for other in every) for one in moved)


def test_regions_are_put_together_and_painted_as_said(classifier, stripes):
    system = regard.load(classifier)
    pixels = system.read(str(stripes / "0.png")).pixels
    whole = OverRegions(system.model, system.stacked([pixels]))
    tokens, n = torch.arange(36)[None], torch.tensor([36])
    assert torch.allclose(whole(tokens, n), system.forward([pixels]).logits(), atol=1e-5)
    kept = torch.tensor([[k for k in range(36) if k not in (3, 10)]])
    painted = system.forward([system.painted(pixels, [3, 10])]).logits()
    assert torch.allclose(whole(kept, torch.tensor([34])), painted, atol=0.05)  # a byte is rounded
    named = system.read(f"{stripes / '0.png'}#without=3,10").pixels
    assert (named == system.painted(pixels, [3, 10])).all()
    with pytest.raises(DataError, match="from 0 to 35"):
        system.painted(pixels, [36])
    soft = system.read(f"{stripes / '0.png'}#blurred=3,10").pixels
    gone = np.isin(system.region_of.numpy(), [3, 10])
    assert (soft[:, ~gone] == pixels[:, ~gone]).all() and (soft[:, gone] != pixels[:, gone]).any()
    assert np.ptp(soft[:, gone]) < np.ptp(pixels[:, gone])
    with pytest.raises(DataError, match="needs numbers of regions"):
        system.read(f"{stripes / '0.png'}#without=x")


def test_a_case_of_pictures(classifier, stripes):
    system = regard.load(classifier)
    answer = system.classify([str(stripes / "0.png")])[0]
    case = system.case([str(stripes / "0.png"), str(stripes / "1.png")])
    assert case.probabilities[0].tolist() == pytest.approx(list(answer.probabilities.values()), abs=1e-5)
    assert torch.allclose(case.shown[0], answer.weights[0].double(), atol=1e-5)
    (batch,) = case.batches
    assert torch.allclose(batch.intervene(batch.weights), batch.probabilities, atol=1e-5)
    without = system.forward([system.painted(answer.pixels, [7])]).logits().double().softmax(-1)[0]
    moved = 0.5 * (without - case.probabilities[0]).abs().sum()
    assert float(case.leave_one_out[0][7]) == pytest.approx(moved.item(), abs=0.02)
    for method in ("attention", "gradient", "leave_one_out"):
        done = run("explain", classifier, "--image", stripes / "0.png", "--method", method, "--json")
        assert len(json.loads(done.stdout)["scores"]) == 36


def test_a_page_answers_data_urls_and_reads_no_file_of_the_host(classifier, stripes):
    from fastapi.testclient import TestClient

    from regard.serve import open_runs
    from regard.serve.web_app import make_app

    url = data_url(in_colour(regard.load(classifier).read(str(stripes / "1.png")).pixels))
    with TestClient(make_app(open_runs([classifier])), base_url="http://127.0.0.1") as client:
        (facts,) = client.get("/api/runs").json()
        assert facts["pictures"] is True

        def inspect(text, **more):
            return client.post("/api/inspect", json={"run": "stripes", "text": text, **more})

        first = inspect(url).json()
        assert first["answer"] == "level" and first["view"]["kind"] == "image"
        assert facts["changes"] == ["mask", "delete", "blur"]
        for how in ("mask", "delete", "blur"):
            changed = inspect(url, words=[0, 1], how=how).json()
            assert changed["changed"] == [0, 1] and len(changed["columns"]) == 36
        for wrong in (
            str(stripes / "1.png"),
            "/etc/passwd",
            url + "#without=99",
            url + "#blurred=3",
            "data:image/png;base64,AAAA",
        ):
            reply = inspect(wrong)
            assert reply.status_code >= 400, wrong
            assert "error" in reply.json()


def test_weights_are_spread_over_what_a_cell_has_seen():
    cells = np.array([[0.0, 0.7], [0.3, 0.0]])
    found = spread(cells, (12, 12), (5, 4, 3.0))
    assert found.sum() == pytest.approx(1) and np.unravel_index(found.argmax(), found.shape) == (3, 7)
    wide = spread(cells, (12, 12), (40, 4, 3.0))
    assert wide.max() < found.max()


def test_an_image_view_has_a_panel_for_each_word(tmp_path):
    settings = {
        "task": "caption", "data": {"pictures": 40, "held_out": 4}, "model": {**SMALL, "state": 16},
        "training": {"steps": 4, "tokens": 64}, "decoding": {"most": 20},
    }  # fmt: skip
    fit(resolve(settings), tmp_path / "run")
    picture = save(tmp_path / "a.png", next(captioned(5, "test")).pixels)
    done = run("caption", tmp_path / "run", picture, "--out", tmp_path / "words.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "words.png").exists()
    facts = json.loads(run("caption", tmp_path / "run", picture, "--json").stdout)
    assert len(facts["weights"]) == len(facts["pieces"]) and facts["grid"] == [6, 6]
    assert "does not classify" in refused(run("classify", tmp_path / "run", picture))
    found = json.loads(run("evaluate", tmp_path / "run", "--generated", 5, "--json").stdout)
    assert {"exact_match", "bleu", "weight_on_named"} <= found.keys()
    table = tmp_path / "t.tsv"
    table.write_text("image\tcaption\na.png\ta red circle\n")
    assert json.loads(run("evaluate", tmp_path / "run", "--data", table, "--json").stdout)["captions"] == 1


@pytest.mark.parametrize("attention", ["discrete", "continuous_softmax", "continuous_sparsemax"])
def test_questions_about_pictures(tmp_path, attention):
    settings = {
        "task": "visual_question", "data": {"pictures": 60, "held_out": 4},
        "model": {**SMALL, "state": 16, "attention": attention}, "training": {"steps": 4, "tokens": 100},
    }  # fmt: skip
    fit(resolve(settings), tmp_path / "run")
    one = next(asked(5, "test"))
    picture = save(tmp_path / "a.png", one.pixels)
    done = run("classify", tmp_path / "run", picture, "--second", one.question, "--json")
    facts = json.loads(done.stdout)
    assert facts["label"] in facts["probabilities"] and len(facts["weights"]) == 2
    assert len(facts["densities"]) == (0 if attention == "discrete" else 2)
    found = json.loads(run("evaluate", tmp_path / "run", "--generated", 8, "--json").stdout)
    assert {"accuracy", "weight_in_box"} <= found.keys()
    assert "second text" in refused(run("classify", tmp_path / "run", picture))
    system = regard.load(tmp_path / "run")
    case = system.case([one])
    (answer,) = system.classify([(one.pixels, one.question)])
    (batch,) = case.batches
    assert torch.allclose(batch.intervene(batch.weights), batch.probabilities, atol=1e-5)
    done = run("explain", tmp_path / "run", "--image", picture, "--second", one.question, "--json")
    assert json.loads(done.stdout)["label"] == answer.label, done.output
    done = run("view", tmp_path / "run", "--image", picture, "--second", one.question, "--layer", 1,
               "--out", tmp_path / "v.html")  # fmt: skip
    page = (tmp_path / "v.html").read_text()
    assert done.exit_code == 0 and f"map {attention if facts['densities'] else 'softmax'}" in page
    assert ('"ellipses":' in page) == ("contours of the density" in page) == bool(facts["densities"])
    if facts["densities"]:
        for (ellipse,), said in zip(system.densities(answer), facts["densities"], strict=True):
            assert ellipse.mean.tolist() == pytest.approx(said["mean"], abs=1e-4)
            assert np.allclose(ellipse.covariance, said["covariance"], atol=1e-4)
            assert ellipse.radii[1] == (2.0 if attention == "continuous_softmax" else 6**0.5)
    assert case.probabilities[0].tolist() == pytest.approx(list(answer.probabilities.values()), abs=1e-5)


def test_a_batch_of_questions_has_several_kinds_of_them(tmp_path):
    given = {"task": "visual_question", "data": {"pictures": 256}, "training": {"examples": 32}}
    task, settings = TASKS["visual_question"], resolve(given)
    parts = task.parts(settings, lambda _: None)
    rows = task.encode(settings, parts, [one for _, one in task.read(settings, "train")])
    encoded = Encoded.make(rows, task.fields(settings, parts), tmp_path / "encoded")
    batches = list(task.batches(settings, encoded, Team()).epoch(0))
    assert [len(batch) for batch in batches] == [32] * 8
    assert all(len(batch.lengths["question"].unique()) > 2 for batch in batches)  # each length is one kind
    assert settings.training.steps == 300  # 256 · 5 / 32, but at least 300
