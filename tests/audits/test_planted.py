"""Planted models are what they claim to be, and calibration does what it says."""

import json
from pathlib import Path

import pytest
import torch

from regard.audits import AUDITS
from regard.audits.planted import KINDS, plant, self_test
from regard.audits.planted.__main__ import main, read, summary
from regard.audits.planted.calibration import PlantedResult, SelfTest, auc, fix, left_out, separation
from regard.audits.planted.planted_texts import LABEL_WORDS, VOCABULARY, is_label_word, texts
from regard.audits.register import Finding, not_applicable
from regard.audits.retraining import retrain
from regard.audits.thresholds import FIXED, TRAINED

DOCS = Path(__file__).parents[2] / "docs"
every_kind = pytest.mark.parametrize("kind", KINDS)
SEED = 48  # neither fixed nor reported with
ONCE = {}  # each is trained once


def trained(kind):
    if kind not in ONCE:
        ONCE[kind] = plant(kind, SEED)
    return ONCE[kind]


def shown(planted):
    """Tokens, and the weights shown, of 40 texts."""
    tokens = planted.texts.test[:40]
    return tokens, torch.as_tensor(planted.model.attention(tokens.tolist())).double()


def others(tokens):
    """Neutral words, drawn at random."""
    return torch.randint(LABEL_WORDS, VOCABULARY, tokens.shape, generator=torch.Generator().manual_seed(0))


@every_kind
def test_every_kind_learns_and_hands_over_a_case(kind):
    planted = trained(kind)
    assert planted.accuracy >= 0.9
    assert planted.faithful is KINDS[kind].faithful
    tokens, weights = shown(planted)
    assert weights.shape == tokens.shape and bool((weights >= 0).all())
    case = planted.case()
    assert len(case.batches) == 1 and case.gradients is None and case.states is None
    intervenes = case.batches[0].with_weights is not None
    assert intervenes == (not kind.startswith("rationalizer"))
    if intervenes:
        assert case.differentiable is not kind.startswith("ignored")


@every_kind
def test_a_seed_repeats_a_model_and_leaves_other_random_numbers_alone(kind):
    before = torch.random.get_rng_state()
    planted = trained(kind)
    assert torch.equal(torch.random.get_rng_state(), before)
    if kind == "hidden":  # one is enough
        again = plant(kind, SEED)
        assert torch.equal(shown(again)[1], shown(planted)[1]) and again.accuracy == planted.accuracy


@every_kind
def test_what_can_be_trained_again_is_what_answers(kind):
    planted = trained(kind)
    train = planted.case(trains=True).train
    assert len(train.texts) == len(train.labels) == len(planted.texts.tokens)
    ours = kind in ("bounded", "sparse", "redundant", "bilstm", "deceptive", "another seed's")
    assert (train.model is not None) == ours
    if ours:
        tokens = planted.texts.test[:40]
        said = train.model(tokens, torch.full((40,), tokens.shape[1])).double().softmax(-1)
        torch.testing.assert_close(said, planted.model.predict(tokens.tolist()), atol=1e-6, rtol=0)


def test_what_is_trained_again_learns():
    train = trained("deceptive").trainable()
    model, tokens = retrain(train, seed=1), trained("deceptive").texts.test
    says = model(tokens, torch.full((len(tokens),), tokens.shape[1])).argmax(-1)
    assert float((says == trained("deceptive").texts.test_labels).double().mean()) >= 0.9
    assert not train.model.training


def test_there_are_enough_kinds_of_both_truths():
    truths = [kind.faithful for kind in KINDS.values()]
    assert truths.count(True) >= 4 and truths.count(False) >= 5 and truths.count(None) == 1


@pytest.mark.parametrize("kind", ["ignored, random", "ignored, trained"])
def test_ignored_weights_change_no_bit(kind):
    planted = trained(kind)
    tokens, weights = shown(planted)
    said = planted.model.predict(tokens.tolist())
    for other in (weights, torch.zeros_like(weights), weights.roll(3, -1), 7 * torch.rand_like(weights)):
        assert torch.equal(planted.model.intervene(tokens.tolist(), other), said)


@pytest.mark.parametrize("kind", ["hard selection", "rationalizer, HardKuma", "rationalizer, entmax"])
def test_what_is_not_selected_does_not_reach_the_output(kind):
    planted = trained(kind)
    tokens, weights = shown(planted)
    changed = torch.where(weights > 0, tokens, others(tokens))
    selected = torch.as_tensor(planted.model.attention(changed.tolist())) > 0
    same = (selected == (weights > 0)).all(-1)  # which words are selected may depend on all of them
    assert int(same.sum()) >= 10 and bool((changed != tokens).any())
    said, again = (planted.model.predict(x[same].tolist()) for x in (tokens, changed))
    assert torch.equal(said, again)


@pytest.mark.parametrize("kind", ["bounded", "sparse", "redundant", "positions only", "hard selection"])
def test_without_context_a_word_of_weight_0_can_be_any_word(kind):
    planted = trained(kind)
    tokens, weights = shown(planted)
    weights = weights.clone()
    weights[:, :4] = 0
    changed = tokens.clone()
    changed[:, :4] = others(tokens)[:, :4]
    said, again = (planted.model.intervene(x.tolist(), weights) for x in (tokens, changed))
    torch.testing.assert_close(said, again, atol=1e-6, rtol=0)


def test_sparse_weights_are_sparse():
    assert float((shown(trained("sparse"))[1] == 0).double().mean()) > 0.3


def test_of_two_redundant_words_each_suffices():
    planted = trained("redundant")
    tokens, weights = shown(planted)
    labels = is_label_word(tokens)
    assert bool((labels.sum(-1) == 2).all())
    says = planted.model.predict(tokens.tolist()).argmax(-1)
    first = labels & (labels.cumsum(-1) == 1)
    for gone, least, most in ((first, 0, 0.05), (labels & ~first, 0, 0.05), (labels, 0.3, 0.7)):
        left = weights.masked_fill(gone, 0)
        found = planted.model.intervene(tokens.tolist(), left / left.sum(-1, keepdim=True)).argmax(-1)
        assert least <= float((found != says).double().mean()) <= most


def test_weights_by_position_do_not_depend_on_the_words_and_are_used():
    planted = trained("positions only")
    tokens, weights = shown(planted)
    assert bool((weights == weights[0]).all()) and float(weights[0, :4].sum()) >= 0.7
    assert bool((is_label_word(tokens)[:, 4:].sum(-1) == 4).all())  # others, of any class, that do not count
    says = planted.model.predict(tokens.tolist()).argmax(-1)
    moved = planted.model.intervene(tokens.tolist(), weights.roll(8, -1)).argmax(-1)
    assert float((says != moved).double().mean()) >= 0.25


def test_a_deceptive_model_hides_its_words_and_needs_them():
    planted = trained("deceptive")
    tokens, weights = shown(planted)
    assert float((weights * is_label_word(tokens)).sum(-1).mean()) <= 0.02
    anonymous = torch.where(is_label_word(tokens), others(tokens), tokens)
    says = planted.model.predict(anonymous.tolist()).argmax(-1)
    right = float((says == planted.texts.test_labels[: len(says)]).double().mean())
    assert right <= 0.75  # of two classes, 40 texts


def test_a_norm_leak_leaks_through_norms():
    planted = trained("norm leak")
    assert planted.model.facts["norm ratio"] >= 5
    assert planted.model.facts["mass on label words"] <= 0.05


def test_what_works_in_the_hidden_model_is_not_what_is_shown():
    planted = trained("hidden")
    tokens, weights = shown(planted)
    says = planted.model.predict(tokens.tolist()).argmax(-1)
    order = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)).argsort(-1)
    moved = planted.model.intervene(tokens.tolist(), weights.gather(-1, order)).argmax(-1)
    assert float((says == moved).double().mean()) >= 0.85


def test_another_seeds_weights_are_not_those_that_answer():
    planted = trained("another seed's")
    tokens, weights = shown(planted)
    put_back = planted.model.intervene(tokens.tolist(), weights)
    assert not torch.allclose(put_back, planted.model.predict(tokens.tolist()), atol=1e-6)
    assert planted.model.facts["JSD of the two"] >= 0.1


def test_texts_are_of_their_seed():
    assert [texts(seed).test.shape[1] for seed in range(3)] == [16, 20, 24]
    assert torch.equal(texts(0).tokens, texts(0).tokens) and not torch.equal(texts(0).tokens, texts(3).tokens)
    assert not set(map(tuple, texts(0).tokens.tolist())) & set(map(tuple, texts(0).test.tolist()))
    with_label_words = is_label_word(texts(0).test).sum(-1)
    assert int(with_label_words.min()) >= 1 and int(with_label_words.max()) <= 4


def made(kind, faithful, seed=0, **strengths):
    """A result whose tests have these values, and baseline 0 (1 for ratios)."""
    findings = {
        name: Finding(value, 1.0 if AUDITS[name].graded == "ratio" else 0.0, None, 99, "")
        for name, value in strengths.items()
    }
    return PlantedResult(kind, seed, faithful, 1.0, 1, {}, findings)


def test_thresholds_are_the_medians_of_the_two_groups():
    good = [made("bounded", True, i, erasure=value) for i, value in enumerate((0.3, 0.5, 0.9))]
    bad = [made("hidden", False, i, erasure=value) for i, value in enumerate((0.0, 0.1, 0.2))]
    apart = [made("bilstm", None, erasure=9.0)]
    assert fix([*good, *bad, *apart]) == {"erasure": (0.1, 0.5)}


def test_a_test_that_cannot_tell_the_groups_apart_is_left_out():
    for good, bad in ((0.2, 0.5), (0.52, 0.5)):
        assert fix([made("bounded", True, erasure=good), made("hidden", False, erasure=bad)]) == {}
    assert fix([made("bounded", True, contradiction=0.1), made("hidden", False, contradiction=0.9)]) == {
        "contradiction": (0.9, 0.1)
    }
    assert fix([made("bounded", True, contradiction=0.1)]) == {}  # one group alone


def test_a_model_without_a_grade_counts_half():
    ramps = {"erasure": (0.0, 1.0), "contradiction": (1.0, 0.0)}
    good = made("bounded", True, erasure=1.0, contradiction=0.0)
    bad = made("hidden", False, erasure=0.0, contradiction=1.0)
    none = PlantedResult("norm leak", 0, False, 1.0, 1, {}, {"erasure": not_applicable("it was too short")})
    assert (good.grade(ramps), bad.grade(ramps), none.grade(ramps)) == (1.0, 0.0, None)
    assert separation([good, bad, none], [1.0, 0.0, None]) == 1.0
    assert separation([made("bounded", True), none]) == 0.5


def test_the_auc_counts_pairs():
    assert auc([0.9, 0.4], [0.5, 0.4]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    with pytest.raises(ValueError, match="both groups"):
        auc([], [0.5])


def test_a_kind_left_out_is_judged_by_the_others():
    fixing = [
        made("bounded", True, erasure=1.0, contradiction=0.0),
        made("sparse", True, erasure=0.5, contradiction=0.0),
        made("hidden", False, erasure=0.0, contradiction=1.0),
    ]
    # Without "sparse", erasure is passed at 1: ½, just held. Contradiction is passed with either.
    assert left_out(fixing, [fixing[1]]) == [pytest.approx(2 / 3)]
    assert left_out(fixing, [fixing[0]]) == [pytest.approx(1.0)]


def test_results_survive_json():
    result = made("bounded", True, 3, erasure=0.3)
    assert PlantedResult.from_dict(json.loads(json.dumps(result.as_dict()))) == result


def test_a_misjudged_model_is_named():
    good = made("bounded", True, erasure=9.0, contradiction=0.0, leave_one_out_correlation=1.0)
    bad = made("hidden", False, erasure=9.0, contradiction=0.0, leave_one_out_correlation=1.0)
    unknown = made("bilstm", None, erasure=9.0, contradiction=0.0)
    test = SelfTest([good, bad, unknown], 0.5)
    assert test.misjudged == [bad] and not test.passed


def test_thresholds_are_those_that_the_results_give():
    assert fix(read(DOCS / "audits" / "planted_fixing.json")) == FIXED
    full = fix(read(DOCS / "audits" / "planted_full_fixing.json"))
    assert {name: ramp for name, ramp in full.items() if AUDITS[name].trains} == TRAINED


def test_what_is_in_the_file_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.audits.planted.__main__.FIXING", range(100, 101))
    monkeypatch.setattr("regard.audits.planted.calibration.plant", lambda *_: pytest.fail("one was trained"))
    stored = json.loads((DOCS / "audits" / "planted_fixing.json").read_text(encoding="utf-8"))
    (tmp_path / "planted_fixing.json").write_text(json.dumps(stored[: len(KINDS)]), encoding="utf-8")
    main(["fix", "--resume", "--folder", str(tmp_path)])
    assert len(read(tmp_path / "planted_fixing.json")) == len(KINDS)


def test_the_command_prints_the_table(capsys):
    main(["table", "--folder", str(DOCS / "audits")])
    assert "| bounded | faithful |" in capsys.readouterr().out


@pytest.mark.parametrize(("stem", "ramps"), [("planted", FIXED), ("planted_full", TRAINED)])
def test_the_page_has_what_was_measured(stem, ramps):
    page = (DOCS / "audit_planted.md").read_text(encoding="utf-8")
    reported = read(DOCS / "audits" / f"{stem}.json")
    assert summary(read(DOCS / "audits" / f"{stem}_fixing.json"), reported) in page
    for name, (failed, passed) in ramps.items():
        assert f"| `{name}` | {failed} | {passed} |" in page
    assert len(reported) >= 65 and separation(reported) >= 0.99
    assert {result.kind for result in reported} == set(KINDS)


@pytest.mark.slow
def test_the_self_test_tells_them_apart():
    heard = []
    test = self_test(seeds=(7,), listen=heard.append)
    assert heard == test.results and len(heard) == len(KINDS)
    assert test.passed, (test.auc, [(one.kind, one.grade()) for one in test.misjudged])
