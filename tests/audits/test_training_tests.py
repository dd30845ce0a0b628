"""Tests of an audit that train, and those that compare: on cases whose answer is known."""

import math
import random
from dataclasses import replace

import pytest
import torch

from regard.audits import AUDITS, Case, NotApplicable, Trainable
from regard.audits.measures import kl
from regard.audits.retraining import hide_tokens, new_model, retrain, seconds, uniform_weights
from regard.audits.tests.communication import predicted_right
from regard.audits.tests.deception import length_ratio, mass, that_matter
from regard.audits.tests.frozen import token_ids
from regard.audits.tests.plausibility import auc, overlap
from regard.audits.tests.trained_adversary import adversary_loss, area
from regard.core.tokens import UNK
from regard.explanations import gradient_x_input
from regard.models.classifiers import CLASSIFIERS
from regard.tasks.classification import ClassificationTraining

GOOD, BAD, OTHERS, LENGTH = [4, 5], [6, 7], list(range(8, 20)), 6
SMALL = {"vocabulary": 20, "classes": 2, "embedding": 8, "width": 8, "dropout": 0.0, "word_dropout": 0.0}
TRAINED = [name for name, audit in AUDITS.items() if audit.trains]
COMPARED = ["communication", "identifiability", "plausibility", "shift"]


def corpus(count, seed):
    """Texts of six words with one that decides."""
    chance, texts, labels = random.Random(seed), [], []
    for _ in range(count):
        label = chance.randrange(2)
        text = chance.choices(OTHERS, k=LENGTH)
        text[chance.randrange(LENGTH)] = chance.choice([BAD, GOOD][label])
        texts.append(text)
        labels.append(label)
    return texts, torch.tensor(labels)


def trainable(name="attentive_mlp", steps=120, **settings):
    texts, labels = corpus(300, 0)
    torch.manual_seed(0)
    model = CLASSIFIERS[name].make(**{**SMALL, **settings})
    plan = ClassificationTraining(steps=steps, rate=0.02, tokens=32 * LENGTH, warmup=10)
    return Trainable(texts, labels, 2, model, plan)


@pytest.fixture(scope="module")
def fitted():
    """A trained MLP with texts to audit, and what it takes to train it again."""
    train = trainable()
    model = retrain(train, seed=0)
    texts, labels = corpus(80, 1)
    again = Trainable(train.texts, train.labels, 2, model, train.training)
    highlights = [[token in GOOD + BAD for token in text] for text in texts]
    case = Case.from_model(model, texts, labels=labels, train=again, highlights=highlights)
    return case


# Training again


def test_training_again_is_repeated_by_its_seed_and_leaves_other_random_numbers_alone(fitted):
    train = fitted.train
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one = retrain(train, seed=3, steps=5)
    assert torch.equal(torch.rand(3), expected)
    other, third = retrain(train, seed=3, steps=5), retrain(train, seed=4, steps=5)
    pairs = list(zip(one.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(one.words.E.weight, third.words.E.weight)
    assert seconds(train) > 0


def test_a_model_keeps_its_regularizers_when_it_is_trained_again():
    train = trainable(name="attentive_bilstm", steps=3)
    train.model.add_regularizers({"tie": 0.5, "deceive": 2.0}, GOOD)
    again = retrain(train, regularizers={"diversity": 0.1})
    assert again.strengths == {"tie": 0.5, "deceive": 2.0, "diversity": 0.1}
    assert again.regularizers["deceive"].forbidden.tolist() == GOOD
    with pytest.raises(NotApplicable, match="takes no regularizer"):
        retrain(trainable("self_attentive"), regularizers={"tie": 1.0})
    with pytest.raises(NotApplicable, match="pairs"):
        retrain(trainable(pairs=True))


def test_hidden_words_are_unknown_ones():
    assert hide_tokens([[4, 5], [6]], [5]) == [[4, UNK], [6]]
    assert uniform_weights(torch.tensor([2, 4]), 1, 4).tolist() == [[[0.5, 0.5, 0, 0]], [[0.25] * 4]]


def test_the_adversary_has_the_loss_of_the_paper():
    """TVD − λ KL(α_a ‖ α_b), a the adversary, by another route."""
    train = trainable()
    a, b = new_model(train, 1).eval(), new_model(train, 2).eval()
    tokens, lengths = torch.tensor(train.texts[:3]), torch.full((3,), LENGTH)
    cases = [Case.from_model(model, train.texts[:3]) for model in (a, b)]
    expected = []
    for i in range(3):
        p, q = (case.probabilities[i].tolist() for case in cases)
        ours, theirs = (case.shown[i].tolist() for case in cases)
        distance = sum(abs(x - y) for x, y in zip(p, q, strict=True)) / 2
        expected.append(distance - 0.3 * sum(x * math.log(x / y) for x, y in zip(ours, theirs, strict=True)))
    found = adversary_loss(a, b, tokens, lengths, 0.3)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    turned = adversary_loss(b, a, tokens, lengths, 0.3)
    assert (found - turned).abs().max() > 1e-6  # KL has a direction
    found.sum().backward()
    assert all(p.grad is None for p in b.parameters())  # the base stays
    assert kl(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])).item() == pytest.approx(math.log(2))
    with b.looking_with(torch.eye(LENGTH)[:1].expand(3, 1, -1)):  # weights of 0, where KL would be infinite
        assert adversary_loss(a, b, tokens, lengths, 0.3).isfinite().all()


def test_the_area_is_that_under_the_cheapest_adversaries():
    ln2 = math.log(2)

    def under(far, paid):
        return area(torch.tensor(far, dtype=torch.float64), torch.tensor(paid, dtype=torch.float64))

    assert under([ln2], [0.4]) == pytest.approx(0.2)  # a straight line
    assert under([0.0, ln2], [0.0, 0.0]) == 0  # for nothing
    assert under([ln2 / 2], [0.4]) == pytest.approx(0.3)  # rises to the middle, then stays
    # an adversary that is further off and pays less makes the other one pointless
    assert under([ln2 / 2, ln2], [0.9, 0.1]) == pytest.approx(under([ln2 / 2, ln2], [0.1, 0.1]))


def test_uniform_weights_that_do_as_well_are_found(fitted):
    """A bag of these words is enough for the class, so uniform weights learn it too."""
    found = AUDITS["uniform_trained"](fitted)
    assert found.baseline == pytest.approx(1, abs=0.05) and found.value > 0.9
    assert found.inputs == 80 and found.interval[0] <= found.value <= found.interval[1]


def test_seeds_are_compared(fitted):
    found = AUDITS["seeds"](fitted, others=1)
    assert 0 < found.value < found.baseline <= math.log(2)
    assert found.details["decisions that agree"] > 0.9
    same = AUDITS["seeds"](
        Case.from_model(retrain(fitted.train, seed=1), fitted.texts, train=fitted.train), others=1
    )
    assert same.value == pytest.approx(0, abs=1e-9)  # seed 0 + 1 is this very model


def test_weights_are_of_use_out_of_context_if_they_name_the_words_that_decide(fitted):
    def marked(texts):
        return [[float(t in GOOD + BAD) for t in text] for text in texts]

    def blind(texts):
        return [[float(t not in GOOD + BAD) for t in text] for text in texts]

    def predict(texts):
        return [[0.1, 0.9] if set(text) & set(GOOD) else [0.9, 0.1] for text in texts]

    values = []
    for attention in (marked, blind):
        more = {"labels": fitted.labels, "train": fitted.train}
        case = Case.from_functions(predict, attention, fitted.texts, **more)
        values.append(AUDITS["frozen"](case, steps=40).value)
    assert values[0] == 1 and values[1] < 0.8


def test_frozen_needs_no_model_of_ours_and_takes_tokens_of_any_kind(fitted):
    words = [[f"w{t}" for t in text] for text in fitted.texts]
    more = [[f"w{t}" for t in text] for text in fitted.train.texts]
    train = Trainable(more, fitted.train.labels, 2)
    case = Case.from_functions(
        lambda texts: [[0.5, 0.5] for _ in texts],
        lambda texts: [[1 / len(t)] * len(t) for t in texts],
        words,
        labels=fitted.labels,
        train=train,
    )
    found = AUDITS["frozen"](case, steps=20)
    assert found.value == found.baseline  # uniform weights against uniform weights
    for name in ("deception", "seeds", "trained_adversary", "uniform_trained"):
        with pytest.raises(NotApplicable, match="not one of this project"):
            AUDITS[name](case)
    assert seconds(train) == 0
    assert token_ids(more, [["w4", "never seen"]])[0][1] == UNK


def test_a_trained_adversary_draws_its_curve(fitted):
    found = AUDITS["trained_adversary"](fitted, strengths=(0.0, 1.0), steps=60)
    near, far = found.details["JSD"]
    assert far > near and found.details["TVD"][1] > found.details["TVD"][0]
    assert found.interval[0] <= found.value <= found.interval[1] and found.baseline > 0


def test_a_model_of_single_words_cannot_hide_them_behind_others(fitted):
    found = AUDITS["deception"](fitted, words=GOOD + BAD)
    assert found.details["mass before"] > 0.5 > 2 * found.details["mass left"]
    assert found.details["accuracy without these words"] < 0.7
    assert found.details["change of others' states without them"] == 0
    assert "context" not in found.details["leaks through"]


def test_a_bilstm_hides_it_behind_its_neighbours():
    train = trainable("attentive_bilstm", steps=250)
    model = retrain(train, seed=0)
    texts, labels = corpus(80, 1)
    again = Trainable(train.texts, train.labels, 2, model, train.training)
    found = AUDITS["deception"](Case.from_model(model, texts, labels=labels, train=again))
    assert found.details["words"] <= 4 and found.details["mass left"] < 0.1
    assert found.value < 0.1 < found.baseline and "context" in found.details["leaks through"]


def test_the_words_that_matter_are_found(fitted):
    assert set(that_matter(fitted, fitted.train, 100, 0)) <= set(GOOD + BAD)
    everything = [t for text in fitted.texts for t in text]
    assert len(mass(fitted, everything)) == 1 and mass(fitted, everything).item() == 0  # no text has others
    on_all = mass(fitted, GOOD + BAD)
    shown = [
        sum(w for w, t in zip(row.tolist(), text, strict=True) if t in GOOD + BAD)
        for row, text in zip(fitted.shown, fitted.texts, strict=True)
    ]
    assert on_all.tolist() == pytest.approx(shown)


def test_states_that_are_twice_as_long_are_measured_so(fitted):
    def states(texts, rows):
        x = torch.tensor([[2.0 if t in GOOD else 1.0 for t in text] for text in texts])
        return x.unsqueeze(-1), x.unsqueeze(-1)

    case = Case.from_model(fitted.train.model, fitted.texts)
    object.__setattr__(case, "states", states)
    assert length_ratio(case, GOOD) == pytest.approx(2)
    assert length_ratio(case, [999]) is None


def test_hiding_words_that_do_not_matter_says_nothing(fitted):
    with pytest.raises(NotApplicable, match="nothing to hide"):
        AUDITS["deception"](fitted, words=[8])


# Comparing


def test_auc_and_overlap_are_their_definitions():
    marks = torch.tensor([True, False, True, False])
    assert auc(torch.tensor([0.4, 0.1, 0.3, 0.2]), marks) == 1
    assert auc(torch.tensor([0.1, 0.4, 0.2, 0.3]), marks) == 0
    assert auc(torch.full((4,), 0.25), marks) == 0.5
    assert overlap(torch.tensor([0.4, 0.3, 0.2, 0.1]), marks) == (0.5, 1 / 3)
    chance = random.Random(0)
    for _ in range(50):
        n = chance.randint(2, 7)
        scores, given = [chance.randint(0, 3) for _ in range(n)], [chance.random() < 0.5 for _ in range(n)]
        if any(given) and not all(given):
            pairs = [(a, b) for a, m in zip(scores, given, strict=True) if m
                     for b, k in zip(scores, given, strict=True) if not k]  # fmt: skip
            expected = sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
            assert auc(torch.tensor(scores).double(), torch.tensor(given)) == pytest.approx(expected)


def test_plausible_weights_are_on_what_people_marked(fitted):
    found = AUDITS["plausibility"](fitted)
    assert found.value > 0.9 and found.baseline == 0.5 and AUDITS["plausibility"].condition is None
    assert found.details["token F1 at random"] == pytest.approx(1 / LENGTH)
    case = Case.from_model(fitted.train.model, fitted.texts, highlights=[[True]] * len(fitted))
    with pytest.raises(NotApplicable, match="text 1 has 6 and 1 marks"):
        AUDITS["plausibility"](case)
    with pytest.raises(NotApplicable, match="no text has both"):
        AUDITS["plausibility"](Case.from_model(fitted.train.model, [[8, 9]], highlights=[[True, True]]))


def test_a_reader_understands_what_the_words_say(fitted):
    found = AUDITS["communication"](fitted, words=1)
    assert found.value > 0.9 > found.baseline + 0.1 and found.details["simulated"]
    assert len(found.details["attention"]) == len(found.details["words"]) == len(found.details["gradient"])
    with pytest.raises(NotApplicable, match="10 texts or more"):
        AUDITS["communication"](Case.from_model(fitted.train.model, [[4, 8], [6, 8]]))
    with pytest.raises(NotApplicable, match="the same class"):
        AUDITS["communication"](Case.from_model(fitted.train.model, [[4, 8]] * 20))


def test_a_reader_that_gets_nothing_to_go_by_guesses_the_usual_class():
    says = [[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 10
    texts = [["same"]] * 40

    def attention(texts):
        return [[1.0] for _ in texts]

    case = Case.from_functions(lambda given: says[: len(given)], attention, texts)
    right = predicted_right(case, case.shown, 1, torch.arange(40) % 5)
    assert right.mean().item() == pytest.approx(float((case.decision == 0).double().mean()))


def test_a_state_that_is_its_word_is_identified_and_one_that_is_noise_is_not(fitted):
    case = Case.from_model(fitted.train.model, fitted.texts)
    vectors = case.states(fitted.texts, torch.arange(80))[1]
    found = {}
    for name, states in {
        "the word": vectors @ torch.randn(8, 8, generator=torch.Generator().manual_seed(0)),
        "noise": torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0)),
    }.items():
        made = Case.from_model(fitted.train.model, fitted.texts)
        object.__setattr__(made, "states", lambda texts, rows, x=states: (x[rows], vectors[rows]))
        found[name] = AUDITS["identifiability"](made)
    assert found["the word"].value == pytest.approx(1)
    assert found["noise"].value == pytest.approx(found["noise"].baseline, abs=0.1)
    counts = [sum(text.count(t) for t in text) / len(text) ** 2 for text in fitted.texts]
    assert found["noise"].baseline == pytest.approx(sum(counts) / len(counts))


class Shifted(torch.nn.Module):
    """The same function of texts, its words' vectors all moved by s."""

    def __init__(self, model, s):
        super().__init__()
        self.model, self.s = model, s
        self.attention_paths = {"reader": ["model.attention"]}

    def embed(self, tokens):
        return self.model.embed(tokens) + self.s

    def from_embedded(self, embedded, lengths, condition=None):
        return self.model.from_embedded(embedded - self.s, lengths, condition)

    def forward(self, tokens, lengths):
        return self.from_embedded(self.embed(tokens), lengths)


def test_the_shift_is_that_of_a_model_that_says_the_same(fitted):
    found = AUDITS["shift"](fitted, seed=3)
    tokens, lengths = torch.tensor(fitted.texts), torch.full((80,), LENGTH)
    model = fitted.train.model
    norm = model.embed(tokens).norm(dim=-1).mean()
    s = torch.randn(8, generator=torch.Generator().manual_seed(3), dtype=torch.float64).float()
    moved = Shifted(model, s / s.norm() * norm).eval()
    torch.testing.assert_close(moved(tokens, lengths), model(tokens, lengths), rtol=1e-4, atol=1e-4)
    tops = [
        gradient_x_input(one, tokens, lengths, hold_attention=True).abs().argmax(-1) for one in (model, moved)
    ]
    assert found.value == pytest.approx((tops[0] != tops[1]).double().mean().item(), abs=0.03)
    assert found.baseline == 0
    with pytest.raises(NotApplicable, match="were not given"):
        AUDITS["shift"](replace(fitted, slopes=None))


# What cannot be done


@pytest.mark.parametrize("name", TRAINED)
def test_without_training_texts_nothing_is_trained(name, fitted):
    with pytest.raises(NotApplicable, match="no training texts"):
        AUDITS[name](Case.from_model(fitted.train.model, fitted.texts, labels=fitted.labels))
    short = Trainable(fitted.train.texts, fitted.train.labels[:5], 2, fitted.train.model)
    with pytest.raises(NotApplicable, match="300 texts and 5 labels"):
        AUDITS[name](Case.from_model(fitted.train.model, fitted.texts, labels=fitted.labels, train=short))


@pytest.mark.parametrize("name", ["deception", "frozen", "uniform_trained"])
def test_without_labels_no_accuracy(name, fitted):
    with pytest.raises(NotApplicable, match="right classes"):
        AUDITS[name](Case.from_model(fitted.train.model, fitted.texts, train=fitted.train))


@pytest.mark.parametrize("name", COMPARED)
def test_bare_functions_are_refused_with_a_reason_or_answered(name):
    case = Case.from_functions(
        lambda texts: [[0.9, 0.1] if t[0] == "a" else [0.2, 0.8] for t in texts],
        lambda texts: [[1 / len(t)] * len(t) for t in texts],
        [["a", "b"], ["b", "c"]] * 10,
    )
    if name == "communication":
        assert AUDITS[name](case).value >= 0.5
    else:
        with pytest.raises(NotApplicable):
            AUDITS[name](case)
