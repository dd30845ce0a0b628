"""Questions on stories: files in, answers out, and the sentences that each hop looks at."""

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest
import torch

import regard
from alignment.published import ROOT
from commands import run
from regard.core.errors import RunError
from regard.data.corpora import STORIES
from regard.data.stories import StoryQuestion
from regard.inspection.inspected import inspect
from regard.runs import fit, resolve
from regard.tasks.answer_scores import fact_areas
from regard.tasks.answering import ANSWERING
from regard.training import ALONE
from regard.training.rank_batches import ShuffledBatches

BABI = ROOT / "babi" / "en"
TINY = {"steps": 20, "examples": 32, "validate": 20, "save": 20}


def written(path: Path, seed: int = 1, count: int = 60, kind: str = "stories") -> Path:
    """Generated stories in bAbI's format, two questions each."""
    lines = []
    for one in islice(STORIES[kind](seed, "train"), count):
        numbered = [f"{i} {sentence}" for i, sentence in enumerate(one.story, 1)]
        facts = " ".join(str(fact + 1) for fact in one.facts)
        asked = [f"{len(numbered) + k} {one.question}\t{one.answer}\t{facts}" for k in (1, 2)]
        lines += numbered + asked
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answering")
    for name in ("qa1_train.txt", "qa2_train.txt", "qa1_test.txt"):
        written(folder / name, len(name) + int(name[2]))
    values = {
        "task": "answering",
        "data": {"train": [str(folder)]},
        "model": {"width": 8},
        "training": TINY,
    }
    return fit(resolve(values), folder / "run").system


def test_a_tenth_of_the_stories_of_each_file_is_held_out(tmp_path):
    files = [written(tmp_path / f"qa{k}_train.txt", k, 30) for k in (1, 2)]
    settings = resolve({"task": "answering", "data": {"train": [str(file) for file in files]}})
    train, valid = ([one for _, one in ANSWERING.read(settings, part)] for part in ("train", "valid"))
    assert len(train) == 108 and len(valid) == 12
    for task in ("qa1", "qa2"):
        theirs, held = ({one.number for one in part if one.task == task} for part in (train, valid))
        assert len(held) == 3 and not theirs & held
    (tmp_path / "one.txt").write_text("1 Mary sat.\n2 Who sat?\tMary\t1\n")
    settings = resolve({"task": "answering", "data": {"train": [str(tmp_path / "one.txt")]}})
    with pytest.raises(ValueError, match="one story"):
        list(ANSWERING.read(settings, "train"))


def test_batches_mix_stories_of_about_the_same_length(system):
    encoded = regard.data.Encoded.open(system.folder / "cache" / "train")
    batches = ShuffledBatches(encoded, 16, 3, ALONE)
    first, again, other = (list(batches.epoch(k)) for k in (0, 0, 1))
    seen = torch.cat([batch.indices for batch in first])
    assert sorted(seen.tolist()) == list(range(len(encoded)))
    assert all(torch.equal(a.indices, b.indices) for a, b in zip(first, again, strict=True))
    assert not torch.equal(seen, torch.cat([batch.indices for batch in other]))
    assert all(len(batch) <= 16 for batch in first)


def test_answers_show_the_sentences_of_each_hop(system):
    (found,) = system.answer([("Mary went to the park. Mary took the hat.", "Where is the hat?")])
    assert found.said in system.labels and sum(found.probabilities.values()) == pytest.approx(1)
    weights = system.weights(found)
    assert [tuple(layer.shape) for layer in weights] == [(1, 1, 2)] * 3
    total = torch.stack(weights).sum(-1)  # what is missing is the weight of empty places
    assert ((total > 0) & (total < 1)).all()
    assert system.hop_weights([found]).shape == (1, 3, 2)
    for wrong in (("", "Who?"), ("Mary sat.", "?")):
        with pytest.raises(ValueError, match="empty"):
            system.answer([wrong])


def test_a_sentence_is_masked_or_deleted(system):
    text = "Mary went to the park. Anna took the hat. John moved to the office."
    whole = inspect(system, text, second="Where is Mary?", name="run")
    assert whole.source == ["Mary went to the park.", "Anna took the hat.", "John moved to the office."]
    masked = inspect(system, text, second="Where is Mary?", words=[1], how="mask", name="run")
    assert all(float(layer[..., 1].max()) == 0 for layer in masked.weights)
    deleted = inspect(system, text, second="Where is Mary?", words=[1], how="delete", name="run")
    (alone,) = system.answer([("Mary went to the park. John moved to the office.", "Where is Mary?")])
    assert deleted.said == alone.said and len(deleted.source) == 2


def test_the_commands(system, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("1 Mary went to the park.\n2 Anna got the hat.\n3 Where is Mary?\tpark\t1\n")
    asked = ("answer", system.folder, "--story", story, "--question", "Where is the xylophone?")
    shown = run(*asked)
    assert shown.exit_code == 0 and "hop 3" in shown.stdout and "xylophone" in shown.stdout
    facts = json.loads(run(*asked, "--json").stdout)
    assert facts["answer"] in system.labels and len(facts["story"]) == 2 and len(facts["weights"]) == 3
    data = system.folder.parent
    figures = json.loads(run("evaluate", system.folder, "--data", data, "--json").stdout)
    assert set(figures["tasks"]) == {"qa1"} and figures["questions"] == 120
    twice = run(
        "evaluate", system.folder, "--data", data / "qa1_test.txt", "--data", data / "qa2_train.txt", "--json"
    )
    found = json.loads(twice.stdout)
    assert set(found["tasks"]) == {"qa1", "qa2"} and len(found["tasks"]["qa1"]["auc"]) == 3
    each = [task["accuracy"] for task in found["tasks"].values()]
    assert found["mean_accuracy"] == pytest.approx(sum(each) / 2) == pytest.approx(1 - found["mean_error"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--story", "nowhere.txt", "--question", "Who?"), "no such file"),
        (("--question", "Who?"), "--story"),
        (("--passage", "x", "--question", "Who?"), "--passage is not for a question answerer"),
    ],
)
def test_bad_questions_are_one_sentence(system, arguments, why):
    done = run("answer", system.folder, *arguments)
    assert done.exit_code == 2 and why in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_story_of_many_sentences_and_a_very_long_one_is_refused(system, tmp_path):
    (tmp_path / "story.txt").write_text("He left.\n" * 50_000 + "on " * 100_000)
    done = run("answer", system.folder, "--story", tmp_path / "story.txt", "--question", "Who left?")
    assert done.exit_code == 2 and "story 1 is too long" in done.stderr, done.output
    assert len(done.stderr.splitlines()) == 1


def test_bad_files_are_one_sentence_and_leave_nothing(tmp_path):
    (tmp_path / "bad.txt").write_text("no numbers here\n")
    done = run("train", "answering", "--data", tmp_path / "bad.txt", "--out", tmp_path / "run")
    assert done.exit_code == 2 and "bad.txt, line 1" in done.stderr and not (tmp_path / "run").exists()
    (tmp_path / "same.txt").write_text("1 A sat.\n2 Who?\ta\t1\n1 B sat.\n2 Who?\ta\t1\n")
    done = run("train", "answering", "--data", tmp_path / "same.txt", "--out", tmp_path / "run")
    assert done.exit_code == 2 and "one answer" in done.stderr


def test_answers_never_seen_are_counted_as_wrong(system):
    asked = [StoryQuestion(("Mary sat.",), "Who sat?", "nobody-knows", (0,), "new")]
    scores = system.score(asked)
    assert scores["accuracy"] == 0 and scores["unknown_answers"] == 1 and "never seen" in scores.notes[0]


def test_areas_are_counts_of_pairs():
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert fact_areas(weights, (0,)).tolist() == [1.0, 0.25]
    assert fact_areas(weights, (1, 2)).tolist() == [0.0, 0.75]
    assert bool(fact_areas(weights, (0, 1, 2)).isnan().all())


def test_the_case_has_sentences_as_tokens_and_hops_as_queries(system):
    asked = list(islice(STORIES["stories"](3, "test"), 12))
    case = system.case(asked)
    (batch,) = case.batches
    assert batch.weights.shape == (12, 3, 8) and case.highlights is not None
    same = batch.intervene(batch.weights)
    torch.testing.assert_close(same, batch.probabilities, atol=1e-5, rtol=1e-4)
    other = batch.intervene(torch.full_like(batch.weights, 1 / 8))
    assert float((other - same).detach().abs().max()) > 1e-4
    assert case.highlights[0] == [i in asked[0].facts for i in range(8)]


@pytest.mark.skipif(not BABI.is_dir(), reason="bAbI is not here")
def test_every_file_of_babi_can_be_read(tmp_path):
    settings = resolve({"task": "answering", "data": {"train": [str(BABI)]}})
    found = [one for part in ("train", "valid") for _, one in ANSWERING.read(settings, part)]
    assert len(found) == 15_000 and len({one.task for one in found}) == 15
    assert max(len(one.story) for one in found) > 40 and all(one.facts for one in found if one.task == "qa1")


def test_a_run_of_before_sentences_were_read_as_they_are_now_is_refused(system, tmp_path):
    old = shutil.copytree(system.folder, tmp_path / "old")
    facts = json.loads((old / "answers.json").read_text())
    del facts["format"]
    (old / "answers.json").write_text(json.dumps(facts))
    with pytest.raises(RunError, match="earlier version of regard.*train it again"):
        regard.load(old)
