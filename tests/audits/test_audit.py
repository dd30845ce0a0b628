"""The audit as a whole: its report, what it does with anything it is given, and what it refuses."""

import json

import pytest
import torch

import regard
from regard.audits import AUDITS, CONDITIONS, Case, Finding, Report
from regard.audits.examine import plan
from regard.audits.report_page import page
from regard.audits.thresholds import RAMPS
from regard.audits.verdict import judge, score
from regard.core.errors import RunError
from regard.models.classifiers import CLASSIFIERS
from regard.tasks.alignment import ALIGNMENT

TEXTS = [[5 + (i * j) % 11 for j in range(1, 4 + i % 7)] for i in range(40)]


def lexicon(texts, weights=None):
    """Probabilities of a model that reads a weighted sum of ±1: tokens above 10 are positive."""
    found = []
    for i, text in enumerate(texts):
        values = torch.tensor([1.0 if token > 10 else -1.0 for token in text], dtype=torch.float64)
        w = lexicon_attention([text])[0] if weights is None else weights[i, : len(text)]
        found.append(4 * (w * values).sum())
    logit = torch.stack(found)
    return torch.stack([torch.sigmoid(-logit), torch.sigmoid(logit)], -1)


def lexicon_attention(texts):
    return [torch.tensor([1.0 + token for token in text], dtype=torch.float64).softmax(-1) for text in texts]


@pytest.fixture(scope="module")
def report():
    """The full audit of that model."""
    return regard.audit(predict=lexicon, attention=lexicon_attention, intervene=lexicon, inputs=TEXTS)


def test_a_function_is_audited_and_the_report_comes_back_from_json(report, tmp_path):
    assert 0 <= report.grade <= 1 and f"{report.grade:.2f}" in report.answer
    assert set(report.conditions) == set(CONDITIONS)
    assert report.tests["conicity"].why and report.tests["gradient_correlation"].why  # not given to it
    told = json.loads(report.save(tmp_path / "report.json").read_text(encoding="utf-8"))
    assert {"grade", "answer", "conditions", "tests"} <= set(told)
    for finding in told["tests"].values():
        assert {"value", "baseline", "interval", "inputs"} <= set(finding)
    assert Report.load(tmp_path / "report.json").as_dict() == report.as_dict()
    assert set(report.left_out) == {name for name, test in AUDITS.items() if test.trains}
    with pytest.raises(FileExistsError, match="not overwritten"):
        report.save(tmp_path / "report.json")
    assert report.save(tmp_path / "report.json", overwrite=True).exists()


def test_without_intervene_what_cannot_be_tested_is_said():
    report = regard.audit(predict=lexicon, attention=lexicon_attention, inputs=TEXTS)
    assert report.conditions["hard to manipulate"].state == "not tested"
    for name in ("uniform", "permutation", "erasure", "adversary", "removal", "consistency"):
        assert "intervene" in report.tests[name].why
    assert report.grade is not None  # by leaving words out, two conditions can still be judged


@pytest.mark.parametrize(
    ("predict", "attention", "why"),
    [
        (lambda texts: torch.randn(len(texts), 2), lexicon_attention, "logits"),
        (lambda texts: torch.full((len(texts), 2), torch.nan), lexicon_attention, "NaN"),
        (lambda texts: torch.ones(len(texts), 1), lexicon_attention, "two classes"),
        (lambda texts: torch.tensor([[1.0, 0.0]]).repeat(len(texts), 1), lexicon_attention, "same class"),
        (lambda texts: "nonsense", lexicon_attention, "not numbers"),
        (lexicon, lambda texts: [[0.5]] * len(texts), "weight for each token"),
        (lexicon, lambda texts: [[-1.0] * len(text) for text in texts], "negative"),
        (lexicon, lambda texts: None, "no table of weights"),
    ],
)
def test_whatever_a_function_returns_there_is_a_report(predict, attention, why, tmp_path):
    report = regard.audit(predict=predict, attention=attention, intervene=lexicon, inputs=TEXTS)
    assert any(why in (finding.why or "") for finding in report.tests.values())
    assert report.save(tmp_path / "report.html").stat().st_size > 1000


def broken(*_):
    return 1 / 0


@pytest.mark.parametrize(
    "functions",
    [
        {"predict": broken, "attention": lexicon_attention},
        {"predict": lexicon, "attention": broken},
        {"predict": lexicon, "attention": lexicon_attention, "intervene": broken},
    ],
)
def test_what_a_function_raises_comes_through(functions):
    with pytest.raises(ZeroDivisionError) as raised:
        regard.audit(**functions, inputs=TEXTS)
    assert raised.traceback[-1].name == "broken"  # the user's own line


def test_what_takes_no_gradient_is_not_differentiable_and_can_be_audited():
    def intervene(texts, weights):
        return lexicon(texts, torch.from_numpy(weights.numpy()))  # fails if the weights need a gradient

    case = Case.from_functions(lexicon, lexicon_attention, TEXTS, intervene=intervene)
    assert not case.differentiable
    assert Case.from_functions(lexicon, lexicon_attention, TEXTS, intervene=lexicon).differentiable
    assert regard.audit(case).tests["adversary"].details["search"] == "drawn"


def test_plan_is_without_times_if_nothing_can_be_asked():
    case = Case.from_functions(lambda texts: "nonsense", lexicon_attention, TEXTS)
    assert plan(case, quick=True).total == 0


def test_weights_that_are_all_equal_have_no_order():
    even = lambda texts: [torch.full((len(text),), 1 / len(text)) for text in texts]  # noqa: E731
    report = regard.audit(predict=lexicon, attention=even, intervene=lexicon, inputs=TEXTS, quick=True)
    assert "no order" in report.tests["leave_one_out_correlation"].why


def test_one_token_and_one_input():
    report = regard.audit(predict=lexicon, attention=lexicon_attention, intervene=lexicon, inputs=[[12]])
    assert report.grade is None and "Too little" in report.answer
    assert all(finding.why for finding in report.tests.values())
    assert report.answer.endswith("an audit needs 10 texts or more, and got 1.")
    few = regard.audit(predict=lexicon, attention=lexicon_attention, intervene=lexicon, inputs=TEXTS[:9])
    assert any("needs 10 texts" in finding.why for finding in few.tests.values())


@pytest.mark.parametrize("given", [[], [[]], None])
def test_no_input_is_an_error_in_one_line(given):
    with pytest.raises(ValueError, match=r"inputs|no token"):
        regard.audit(predict=lexicon, attention=lexicon_attention, inputs=given)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="predict="):
        regard.audit(torch.nn.Linear(2, 2), TEXTS)
    with pytest.raises(RunError, match="a word aligner has no decision about a text"):
        regard.audit(ALIGNMENT.system(None, None, None), ["a text"])
    with pytest.raises(ValueError, match="neither"):
        regard.audit(inputs=TEXTS)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_can_be_audited(name):
    torch.manual_seed(0)
    model = CLASSIFIERS[name].make(vocabulary=20, classes=3, dropout=0.0, word_dropout=0.0).eval()
    case = Case.from_model(model, TEXTS)
    for batch in case.batches:
        said = batch.intervene(batch.weights)  # the weights that were used, put back, change nothing
        torch.testing.assert_close(said.detach(), batch.probabilities, rtol=1e-4, atol=1e-5)
    report = regard.audit(model, TEXTS, quick=True)
    assert report.tests["consistency"].why or report.tests["consistency"].value == 1
    assert report.tests["permutation"].value is not None
    assert not any("it failed" in (finding.why or "") for finding in report.tests.values())


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name.startswith("rationalizer")])
def test_all_weight_on_a_word_lets_a_rationalizer_read_that_word_alone(name):
    torch.manual_seed(0)
    model = CLASSIFIERS[name].make(vocabulary=20, classes=3, dropout=0.0, word_dropout=0.0).eval()
    case = Case.from_model(model, [text for text in TEXTS if len(text) > 3])
    for batch in case.batches:
        for position in range(4):
            one = torch.zeros_like(batch.weights)
            one[..., position] = 1
            alone = case.predict([[case.texts[i][position]] for i in batch.rows.tolist()], batch.rows)
            torch.testing.assert_close(batch.intervene(one).detach(), alone, rtol=0, atol=1e-6)
    report = regard.audit(case, quick=True)
    assert "selected words" in report.tests["conicity"].why
    assert report.tests["contradiction"].value in (0.0, None)


def test_nothing_is_changed_in_the_model():
    torch.manual_seed(0)
    model = CLASSIFIERS["attentive_bilstm"].make(vocabulary=20, classes=2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert model.training
    regard.audit(model, TEXTS, quick=True)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_names_and_words_are_text_in_the_page():
    evil = "<script>alert(1)</script>"
    said = lambda texts: lexicon([[int(token[-2:]) for token in text] for text in texts])  # noqa: E731
    looked = lambda texts: lexicon_attention([[int(token[-2:]) for token in text] for text in texts])  # noqa: E731
    texts = [[f"{evil}{token:02}" for token in text] for text in TEXTS if len(text) > 7]
    html = page([regard.audit(predict=said, attention=looked, inputs=texts, name=f"the {evil}")])
    assert evil not in html
    assert "&lt;script&gt;alert" in html


def finding(value, baseline=0.0):
    return Finding(value, baseline, (value, value), 10, "")


def test_a_grade_needs_two_conditions_and_lies_between_failed_and_passed():
    passed = {
        name: finding(
            RAMPS[name][1] if AUDITS[name].graded != "ratio" else RAMPS[name][1] * 0.5,
            0.5 if AUDITS[name].graded == "ratio" else 0.0,
        )
        for name in RAMPS
    }
    failed = {
        name: finding(
            RAMPS[name][0] if AUDITS[name].graded != "ratio" else RAMPS[name][0] * 0.5,
            0.5 if AUDITS[name].graded == "ratio" else 0.0,
        )
        for name in RAMPS
    }
    assert judge(passed).grade == pytest.approx(1)
    assert judge(failed).grade == pytest.approx(0)
    assert all(judged.state == "held" for judged in judge(passed).conditions.values())
    one = {name: found for name, found in passed.items() if AUDITS[name].condition == "necessary"}
    assert judge(one).grade is None
    assert judge({}).grade is None
    hidden = {**passed, "consistency": failed["consistency"]}  # shown weights that are not used
    assert judge(hidden).conditions["necessary"].score == 0
    assert all(score(name, found) == pytest.approx(1) for name, found in passed.items())


def test_reports_that_were_saved_before_still_load(report):
    """Keys of a report are read by programs: those that it has today stay."""
    keys = "name grade answer conditions tests inputs quick seed advice left_out agree disagree limits"
    told = report.as_dict()
    assert list(told) == keys.split()
    assert set(told["conditions"]["necessary"]) == {"state", "score", "tests"}
    test = set(told["tests"]["uniform"])
    assert test == {"value", "baseline", "yardstick", "interval", "inputs", "says", "why", "details"}
    assert all(one["baseline"] == one["yardstick"] for one in told["tests"].values())
    for one in told["tests"].values():
        del one["baseline"]  # a report of before
    assert Report.from_dict(told).as_dict() == report.as_dict()
    assert set(told["agree"][0]) == {"words", "weights", "evidence", "tau", "says"}


def test_a_text_is_not_cut_into_characters():
    with pytest.raises(TypeError, match=r"\[text.split\(\) for text in texts\]; got a string"):
        regard.audit(predict=lexicon, attention=lexicon_attention, inputs=["good film"])
