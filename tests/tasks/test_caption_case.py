"""Explanations and audits of captioners, and of other models on regions that are grey or blurred."""

import json

import numpy as np
import pytest
import torch

import regard
from commands import run
from regard.attention import concat_steps
from regard.audits import audit
from regard.core.errors import RunError
from regard.core.tokens import BOS, EOS
from regard.data.corpora.glyphs import glyphs
from regard.data.corpora.scenes import captioned
from regard.explanations import METHODS, explain_texts
from regard.inspection import draw, inspect
from regard.recording import record
from regard.runs import fit, resolve
from regard.tasks.region_baselines import baseline_pictures, blurred
from regard.views.png import data_url

pytest.importorskip("PIL.Image")
SMALL = {"widths": (4, 8), "blocks": (1, 0)}
CAPTION = {
    "task": "caption", "data": {"pictures": 40, "held_out": 4}, "model": {**SMALL, "state": 16},
    "training": {"steps": 12, "tokens": 64}, "decoding": {"most": 12, "beam": 1},
}  # fmt: skip
SCENES = [one for _, one in zip(range(6), captioned(7, "test"), strict=False)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("captioner") / "run"
    fit(resolve(CAPTION), out)
    return out


@pytest.fixture(scope="module")
def system(folder):
    return regard.load(folder)


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    from base64 import b64decode

    file = tmp_path_factory.mktemp("picture") / "scene.png"
    file.write_bytes(b64decode(data_url(SCENES[0].pixels.transpose(1, 2, 0)).split(",")[1]))
    return file


def test_each_word_of_a_caption_is_a_decision_teacher_forced(system):
    tokens = [system.tokenizer.encode(one.caption) for one in SCENES[:3]]
    with torch.no_grad(), record(system.model, "attention") as seen:
        hidden = system.forward([one.pixels for one in SCENES[:3]], tokens)
    weights = concat_steps(seen["attention"]).weights  # (b, m, n)
    wanted = hidden.logits().double().softmax(-1)
    case = system.case(SCENES[:3], most=None)
    steps = [(i, t) for i, some in enumerate(tokens) for t in range(len(some) + 1)]
    assert len(case) == len(steps) and case.inputs_of == [i for i, _ in steps]
    assert case.labels.tolist() == [[*tokens[i], EOS][t] for i, t in steps]
    for row, (i, t) in enumerate(steps):
        assert torch.allclose(case.probabilities[row], wanted[i, t], atol=1e-5)
        assert torch.allclose(case.shown[row], weights[i, t].double(), atol=1e-5)
    (batch,) = case.batches
    assert torch.allclose(batch.intervene(batch.weights), batch.probabilities, atol=1e-5)


def test_other_weights_change_the_step_that_is_asked_about_alone(system):
    one = SCENES[0]
    tokens, n = system.tokenizer.encode(one.caption), system.regions
    case = system.case([one], most=None)
    (batch,) = case.batches
    other = torch.zeros_like(batch.weights)
    other[..., 3] = 1
    found = batch.intervene(other)
    model, t = system.model, 2
    with torch.no_grad():
        memory = model.encode(system.stacked([one.pixels]))
        state = model.start(memory)
        for token in [BOS, *tokens][:t]:
            _, state = model.step(torch.tensor([token]), state, memory)
        row = torch.zeros(1, 1, n)
        row[..., 3] = 1
        with regard.intervene(model, lambda p: row, "attention"):
            hidden, _ = model.step(torch.tensor([[BOS, *tokens][t]]), state, memory)
    at = batch.rows.tolist().index(t)
    assert torch.allclose(found[at], model.logits(hidden)[0].double().softmax(-1), atol=1e-5)


def test_a_region_is_grey_or_blurred_and_the_rest_stays(system):
    one = SCENES[1]
    pixels = system.stacked([one.pixels])
    images = system.model.pixels.normalise(pixels)
    tokens = system.tokenizer.encode(one.caption)
    region = (system.region_of == 14).unsqueeze(0)
    for name in ("grey", "blur"):
        case = system.case([one], baseline=name, most=None)
        assert torch.allclose(case.probabilities, system.case([one], most=None).probabilities, atol=1e-5)
        ground = baseline_pictures(name, images, system.grid)
        with torch.no_grad():
            memory = system.model.encode_normalised(torch.where(region, ground, images))
            state = system.model.start(memory)
            for token in [BOS, *tokens][:4]:
                hidden, state = system.model.step(torch.tensor([token]), state, memory)
        wanted = system.model.logits(hidden)[0].double().softmax(-1)
        without = [k for k in case.texts[3] if k % system.regions != 14]
        assert torch.allclose(case.predict([without], torch.tensor([3]))[0], wanted, atol=1e-5)


def test_blur_keeps_what_is_level_and_the_sum_inside():
    level = torch.full((1, 3, 12, 8), 0.7)
    assert torch.allclose(blurred(level, (6, 4)), level)
    point = torch.zeros(1, 1, 33, 33)
    point[..., 16, 16] = 1
    found = blurred(point, (11, 11))[0, 0]
    assert found.max() == found[16, 16] and float(found.sum()) == pytest.approx(1, abs=0.02)
    assert torch.allclose(found, found.T) and torch.allclose(found, found.flip(0))
    side = torch.arange(33.0) - 16
    deviation = float((found.sum(0) * side**2).sum()) ** 0.5
    assert deviation == pytest.approx(33 / 8, rel=0.05)
    assert blurred(torch.ones(2, 1, 1, 1), (1, 1)).tolist() == [[[[1.0]]], [[[1.0]]]]
    with pytest.raises(ValueError, match=r'no baseline "red". Known: grey, blur'):
        baseline_pictures("red", level, (6, 4))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_explains_every_word(system, method):
    pixels = np.ascontiguousarray(SCENES[2].pixels)
    url = data_url(pixels.transpose(1, 2, 0))
    more = {"steps": 4, "doublings": 0} if method == "integrated_gradients" else {}
    found = explain_texts(system, [(url, "a red circle")], method=method, asked={"baseline": "blur"}, **more)
    assert [one.label for one in found] == ["a", "red", "circle", "</s>"]
    assert all(len(one.scores) == 36 and np.isfinite(one.scores).all() for one in found)
    if method == "attention":
        case = system.case([(url, "a red circle")])
        assert found[1].scores == pytest.approx(case.shown[1].tolist(), abs=1e-5)
        assert found[1].probability == pytest.approx(float(case.probabilities[1, case.explained[1]]))


def test_the_word_that_is_written_is_explained_even_if_another_is_likelier(system):
    item = (SCENES[3].pixels, "cross cross cross")
    case = system.case([item])
    (first, *_) = explain_texts(system, [item], method="leave_one_out")
    number = list(case.classes).index("cross")
    p, n = case.probabilities[0, number], system.regions
    without = case.predict([case.texts[0][1:]], torch.tensor([0]))[0, number]
    assert first.label == "cross" and len(first.scores) == n
    assert first.scores[0] == pytest.approx(float(p.logit() - without.logit()), abs=1e-4)


def test_explain_by_its_command(folder, picture, tmp_path):
    given = "explain", folder, "--image", picture, "--second", "a red circle above a blue circle"
    done = run(*given, "--target", "circle", "--baseline", "blur", "--method", "leave_one_out", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["label"] for one in found] == ["circle", "circle"] and len(found[0]["scores"]) == 36
    done = run("explain", folder, "--image", picture, "--out", tmp_path / "e.html")
    assert done.exit_code == 0 and "row 6, column 6" in done.stdout, done.output
    for more, says in (
        (("--target", "horse"), "'horse' is no word of the caption 'a red circle above a blue circle'"),
        (("--target", "circle", "--against", "square"), "compared with all others"),
        (("--baseline", "red"), 'no baseline "red". Known: grey, blur'),
        (("--label", "horse"), "no label 'horse'"),
    ):
        done = run(*given, *more)
        assert done.exit_code == 2 and says in done.stderr and "Traceback" not in done.output, done.output


def test_an_audit_of_captions_by_its_command(folder):
    done = run("audit", folder, "--generated", 6, "--words", 20, "--baseline", "blur", "--quick")
    assert done.exit_code == 0, done.output
    report = json.loads((folder / "audit" / "quick.json").read_text())
    assert report["inputs"] == 20
    for test in ("erasure", "permutation", "adversary", "comprehensiveness", "plausibility"):
        assert report["tests"][test]["value"] is not None, report["tests"][test]
    done = run("audit", folder, "--quick", "--overwrite")
    assert done.exit_code == 2 and "--data" in done.stderr and "--generated N" in done.stderr


def test_a_captioner_without_attention_is_refused(tmp_path):
    settings = {**CAPTION, "model": {**CAPTION["model"], "read": "mean"}}
    settings["training"] = {"steps": 2, "tokens": 64}
    fit(resolve(settings), tmp_path / "run")
    with pytest.raises(RunError, match="no attention over regions"):
        regard.load(tmp_path / "run").case(SCENES[:1])


def test_a_view_colours_the_picture_by_a_method_for_each_word(system):
    url = data_url(SCENES[4].pixels.transpose(1, 2, 0))
    found = inspect(system, url)
    view = draw(found, method="gradient")
    assert list(view.target) == found.rows and view.matrices[0].weights.shape == (len(found.rows), 36)


def test_a_classifier_is_audited_with_blur(tmp_path):
    settings = {
        "task": "image", "data": {"pictures": 40, "held_out": 4}, "model": SMALL,
        "training": {"steps": 3, "tokens": 16},
    }  # fmt: skip
    fit(resolve(settings), tmp_path / "run")
    system = regard.load(tmp_path / "run")
    items = [one for _, one in zip(range(12), glyphs(1, "test"), strict=False)]
    grey, blur = (system.case(items, baseline=name) for name in ("grey", "blur"))
    assert torch.allclose(grey.probabilities, blur.probabilities, atol=1e-5)
    assert not torch.allclose(grey.leave_one_out[0], blur.leave_one_out[0])
    report = audit(blur, quick=True)
    assert report.tests["comprehensiveness"].value is not None
