"""Classifiers on the page: probabilities, coloured words, explanations, without a word, saved."""

from urllib.parse import parse_qs, urlsplit

import pytest

from inspection.tiny_runs import REVIEW as TEXT
from inspection.tiny_runs import system_of
from regard.inspection import inspect, word_scores
from regard.inspection.method_scores import methods
from serve.tiny_server import opened, serving

CHANGES = {"As it is": "none", "Masked": "mask", "Deleted": "delete"}
HEAD = "[data-control=head]"
METHOD = "[data-control=method] select"


@pytest.fixture(scope="module")
def client(runs):
    """A server of three classifiers (one query, three of them, and one for pairs), and of a translator."""
    with serving({**opened("bilstm", "queries", "pairs"), "heads": runs["heads"]}) as found:
        yield found


def found_by(name, words=(), how="none", text=TEXT, **more):
    """What the library finds."""
    return inspect(system_of(name), text, words=words, how=how, **more)


def state(page):
    return parse_qs(urlsplit(page.url).fragment, keep_blank_values=True)


def bars(page, how="none", panel=0):
    """Labels and numbers of a card, as they are read, and the widths of the bars in percent."""
    rows = page.locator(".panel").nth(panel).locator(f".card[data-how={how}] .probabilities li").all()
    return {
        row.locator("bdi").inner_text(): (
            row.locator("span").inner_text(),
            float(row.locator("i").evaluate("e => e.style.width").rstrip("%")),
        )
        for row in rows
    }


def scores(page):
    """The numbers of the words, from the text alternative."""
    page.locator(".picture details").first.evaluate("details => { details.open = true; }")
    page.locator(".picture details table tbody tr").first.wait_for()
    cells = page.locator(".picture details table tbody tr").first.locator("td").all_inner_texts()
    return [float(cell.replace("−", "-")) for cell in cells]


def shown(probabilities):
    return {label: (f"{p:.3f}", pytest.approx(100 * p, abs=0.01)) for label, p in probabilities.items()}


def test_probabilities_are_bars_and_words_are_coloured(watched, pictures):
    page = watched.open()
    assert page.input_value("#text") == system_of("bilstm").example  # nothing was said: the first run's own
    watched.type(TEXT)
    found = found_by("bilstm")
    assert watched.answers() == {"As it is": found.said}
    assert bars(page) == shown(found.probabilities)
    assert page.locator(".picture .regard-lit").all_inner_texts() == TEXT.split()
    assert scores(page) == pytest.approx(found.matrix()[0].tolist(), abs=1e-3)
    assert "map softmax" in page.inner_text(".picture figcaption")
    assert page.locator(".controls label").count() == 1  # no layers and no heads to choose among
    assert not page.locator("#second").is_visible()
    page.screenshot(path=pictures / "classifier.png", full_page=True)


def test_a_word_is_masked_and_deleted(watched, pictures):
    page = watched.open(f"text={TEXT}&run=bilstm")
    page.locator(".picture .regard-lit").nth(3).click()
    watched.settled()
    for how in CHANGES.values():
        found = found_by("bilstm", [3], how)
        assert bars(page, how) == shown(found.probabilities)
    first, less = (found_by("bilstm", [3], how) for how in ("none", "delete"))
    change = f"{first.said} {first.probabilities[first.said]:.3f} → {less.probabilities[first.said]:.3f}"
    assert change in page.inner_text(".card[data-how=delete]")
    page.click(".card[data-how=mask]")
    assert scores(page)[3] == 0 and "the weight on “exquisite” is 0" in page.inner_text(".picture figcaption")
    page.click(".card[data-how=delete]")
    assert page.locator(".picture .regard-lit").all_inner_texts() == less.source
    page.screenshot(path=pictures / "classifier-without.png", full_page=True)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    watched.settled()
    assert page.locator(".picture .regard-lit").all_inner_texts() == less.source
    assert bars(page, "delete") == shown(less.probabilities)


def test_words_by_any_explanation(watched, pictures):
    page = watched.open(f"text={TEXT}&run=bilstm")
    options = page.locator(f"{METHOD} option").all_inner_texts()
    assert options == methods(system_of("bilstm"))
    found = found_by("bilstm")
    for method in options:
        page.select_option(METHOD, method)
        watched.settled()
        wanted = word_scores(found, method).tolist()
        assert scores(page) == pytest.approx(wanted, abs=1e-3, rel=1e-2)
        against = page.locator(".picture .regard-lit i.regard-against").count()
        assert against == sum(w < 0 for w in wanted)
        assert state(page).get("method", ["attention"]) == [method] or method == "attention"
    page.screenshot(path=pictures / "classifier-method.png", full_page=True)
    page.go_back()
    watched.settled()
    assert page.locator(METHOD).input_value() == options[-2]


def test_a_method_that_cannot_answer_says_so_and_another_can_be_chosen(watched):
    page = watched.open("text=exquisite&run=bilstm&method=leave_one_out")
    assert "nothing is left without it" in page.inner_text(".picture") and bars(page)
    page.select_option(METHOD, "norms")
    watched.settled()
    assert page.locator(".picture .regard-lit").count() == 1


def test_one_of_several_heads_is_chosen_without_asking_again(watched):
    page = watched.open(f"text={TEXT}&run=queries")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    (weights,) = found_by("queries").weights
    for head in range(3):
        page.select_option(f"{HEAD} select", str(head))
        assert scores(page) == pytest.approx(weights[head, 0].tolist(), abs=1e-3)
        assert f"head {head + 1} of 3" in page.inner_text(".picture figcaption")
    assert asked == [] and page.inner_text(HEAD).startswith("Head")
    page.select_option(METHOD, "flow")
    watched.settled()
    assert not page.locator(HEAD).is_visible()


def test_a_classifier_stands_beside_a_translator(watched, pictures):
    page = watched.open(f"text={TEXT}&word=4&run=heads&layer=1&head=2&run=queries")  # as addresses were, too
    assert list(watched.answers(1)) == list(CHANGES) and len(watched.answers(0)) == 3
    assert "layer 1 of 2, head 2 of 2" in page.locator(".picture figcaption").first.inner_text()
    assert bars(page, "delete", 1) == shown(found_by("queries", [3], "delete").probabilities)
    page.screenshot(path=pictures / "classifier-beside.png", full_page=True)
    page.locator(".panel").nth(0).locator(".top select").select_option("bilstm")
    watched.settled()
    assert bars(page, "none", 0) == shown(found_by("bilstm").probabilities)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"


def test_two_texts(watched):
    page = watched.open("text=anna good bert bad .&run=pairs")
    assert "takes two texts" in page.inner_text(".problem")
    watched.wrong.clear()  # the browser's own line about the 422
    page.fill("#second", "bert")
    page.press("#second", "Enter")
    watched.settled()
    found = found_by("pairs", text="anna good bert bad .", second="bert")
    assert bars(page) == shown(found.probabilities) and "<b>fair</b>" in bars(page)
    assert state(page)["second"] == ["bert"] and page.inner_text(".problem") == ""


def test_a_saved_page_shows_the_same(watched, pictures):
    page = watched.open(f"text={TEXT}&word=4&run=bilstm&method=gradient_x_input&run=queries&head=&method=")
    before = [bars(page, how, panel) for how in CHANGES.values() for panel in (0, 1)]
    again = watched.saved(pictures / "classifier-saved.html")
    assert [bars(again.page, how, panel) for how in CHANGES.values() for panel in (0, 1)] == before
    assert scores(again.page) == pytest.approx(
        word_scores(found_by("bilstm"), "gradient_x_input").tolist(), abs=1e-3, rel=1e-2
    )
    assert again.page.locator(METHOD).first.is_disabled()
    again.page.locator(".panel").nth(1).locator(f"{HEAD} select").select_option("2")
    assert "head 3 of 3" in again.page.locator(".picture figcaption").nth(1).inner_text()
    again.page.context.close()
    assert again.wrong == [] and again.elsewhere == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_and_labels_have_contrast(watched, scheme, pictures):
    watched.page.emulate_media(color_scheme=scheme)
    watched.page.set_viewport_size({"width": 360, "height": 900})
    page = watched.open(f"text={TEXT}&word=4&run=bilstm&method=leave_one_out")
    page.screenshot(path=pictures / f"classifier-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"
    assert page.evaluate(
        """() => {
          const parts = e => getComputedStyle(e).backgroundColor.match(/\\d+/g);
          const light = e => parts(e).map(Number).reduce((a, b) => a + b);
          return [...document.querySelectorAll('.probabilities .bar')].every(
            bar => Math.abs(light(bar) - light(bar.firstChild)) > 150);
        }"""
    )


def test_unknown_words_are_marked_and_equal_weights_are_pale(watched, pictures):
    page = watched.open("text=vier ganz unbekannte Wörter&run=bilstm")
    assert page.locator("#words button.unknown").count() == 4
    assert page.locator(".picture .regard-lit.regard-unknown").count() == 4
    assert "Dotted: unknown to the model" in page.inner_text("#hint")
    legend = page.inner_text(".picture .regard-legend")
    assert "unknown to the model" in legend and "an equal share, 1/4 = 0.25" in legend
    wide = page.locator(".picture .regard-lit i").evaluate_all("i => i.map(e => parseFloat(e.style.width))")
    assert max(wide) < 45  # near a quarter of the scale, not at its end
    page.screenshot(path=pictures / "unknown.png", full_page=True)
    unknown = found_by("bilstm").unknown
    watched.type(" ".join(word for i, word in enumerate(TEXT.split()) if i not in unknown))
    assert page.locator(".unknown, .regard-unknown").count() == 0
    assert "unknown" not in page.inner_text("#hint")


def test_a_run_on_own_files_has_no_examples(watched):
    page = watched.open("run=pairs&text=anna good bert bad .&second=bert")
    assert not page.locator("#examples").is_visible()
    assert page.inner_text("#about").startswith("Sorts pairs of texts into 3 classes: ")
    assert "<b>fair</b>" in page.inner_text("#about")
