"""A system of no built-in task on the page, and an answer without spaces: the page draws what it is told."""

from contract.toy.vowels import Count
from regard.inspection import inspect
from serve.test_third_system import TEXT, toy
from serve.tiny_server import serving


def test_a_third_system_is_shown_masked_and_deleted(watched, pictures):
    run = toy()
    with serving({"toy": run}) as there:
        watched.address = f"http://127.0.0.1:{there.port}/"
        page = watched.open(f"text={TEXT}&word=2&run=toy&layer=2&method=flow")
        names = {"none": "As it is", "mask": "Masked", "delete": "Deleted"}
        assert watched.answers() == {
            name: inspect(run.system, TEXT, words=[1], how=how).said for how, name in names.items()
        }
        assert page.locator(".picture .regard-lit").all_inner_texts() == TEXT.split()
        assert page.locator(".controls label").count() == 0 and "probability" not in page.inner_text(".panel")
        page.click(".card[data-how=delete]")
        assert page.locator(".picture .regard-lit").all_inner_texts() == ["abe", "dig"]
        page.screenshot(path=pictures / "third-system.png", full_page=True)


def test_words_of_an_answer_stand_as_far_apart_as_in_the_answer(watched, monkeypatch):
    run, said = toy(), "我爱 火车"
    monkeypatch.setattr(Count, "said", said)
    monkeypatch.setattr(
        type(run.system), "answer_segments", lambda self, _: self.segments(said), raising=False
    )
    monkeypatch.setattr(type(run.system), "weights", lambda self, _: [], raising=False)
    with serving({"toy": run}) as there:
        watched.address = f"http://127.0.0.1:{there.port}/"
        watched.open(f"text={TEXT}")
        assert watched.answers() == {"As it is": said}
