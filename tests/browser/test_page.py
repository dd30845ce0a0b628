"""The page as a person meets it: typing, clicking, choosing, comparing, saving, by mouse and by keyboard."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image

from inspection.tiny_runs import COPIED as TEXT
from regard.inspection import inspect
from serve.tiny_server import serving

CHANGES = {"As it is": "none", "Masked": "mask", "Deleted": "delete"}


def said(run, text=TEXT, words=(), how="none"):
    """What the library says."""
    return " ".join(inspect(run.system, text, words=words, how=how).rows)


def state(page):
    return parse_qs(urlsplit(page.url).fragment, keep_blank_values=True)


def colours(file):
    return len(Image.open(file).convert("RGB").resize((300, 300)).getcolors(90_000))


def table(page):
    """The numbers of the heat map, from its text alternative."""
    page.locator(".picture details").first.evaluate("details => { details.open = true; }")
    page.locator(".picture details table tbody tr").first.wait_for()  # made after the click
    rows = page.locator(".picture details table tbody tr").all()
    return [[float(cell) for cell in row.locator("td").all_inner_texts()] for row in rows]


def test_the_page_opens_with_an_example_and_draws_it(watched, runs, pictures):
    page = watched.open()
    assert page.input_value("#text") == runs["heads"].system.example
    assert watched.answers() == {"As it is": said(runs["heads"], runs["heads"].system.example)}
    assert watched.columns() == runs["heads"].system.example.split()
    assert state(page)["text"] == [runs["heads"].system.example]
    for name, width, scheme in (("wide", 1100, "light"), ("dark", 1100, "dark"), ("phone", 360, "light")):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=pictures / f"page-{name}.png", full_page=True)
        assert colours(pictures / f"page-{name}.png") > 30
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"


def test_what_is_typed_is_answered(watched, runs):
    watched.open()
    for text in (TEXT, "fe fu"):
        page = watched.type(text)
        assert watched.answers() == {"As it is": said(runs["heads"], text)}
        assert page.locator("#words button").all_inner_texts() == text.split()
    page = watched.type("   ")
    assert watched.answers() == {} and page.locator("#words button").count() == 0


def test_a_clicked_word_is_masked_and_deleted(watched, runs, pictures):
    page = watched.open()
    watched.type(TEXT)
    page.click("#words button:nth-child(2)")
    watched.settled()
    expected = {name: said(runs["heads"], TEXT, [1], how) for name, how in CHANGES.items()}
    assert watched.answers() == expected
    assert page.get_attribute("#words button:nth-child(2)", "aria-pressed") == "true"
    page.screenshot(path=pictures / "without-a-word.png", full_page=True)

    page.click(".card[data-how=mask]")
    assert "decoder.0.cross, decoder.1.cross the weight on “ga” is 0" in page.inner_text(
        ".picture figcaption"
    )
    assert all(row[1] == 0 for row in table(page))
    page.click(".card[data-how=delete]")
    assert watched.columns() == ["du", "bo", "ge"]
    assert state(page)["word"] == ["2"] and state(page)["how"] == ["delete"]

    address = page.url
    page.goto("about:blank")
    page.goto(address)  # every state has an address
    watched.settled()
    assert watched.answers() == expected and watched.columns() == ["du", "bo", "ge"]
    page.click("#words button:nth-child(4)")
    watched.settled()
    assert watched.answers()["Deleted"] == said(runs["heads"], TEXT, [1, 3], "delete")
    page.go_back()
    watched.settled()
    assert watched.answers() == expected


def test_a_word_of_the_heat_map_can_be_clicked_too(watched, runs):
    page = watched.open()
    watched.type(TEXT)
    page.locator(".regard-top .regard-word").nth(2).click()
    watched.settled()
    assert watched.answers()["Masked"] == said(runs["heads"], TEXT, [2], "mask")
    page.locator(".regard-top .regard-word").nth(2).click()
    watched.settled()
    assert list(watched.answers()) == ["As it is"]


def test_layers_and_heads_are_switched_without_asking_again(watched, runs):
    page = watched.open()
    watched.type(TEXT)
    weights, asked = inspect(runs["heads"].system, TEXT).weights, []
    page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    for layer in (0, 1):
        for head in ("", "0", "1"):
            page.select_option("[data-control=layer] select", str(layer))
            page.select_option("[data-control=head] select", head)
            watched.settled()
            which = "mean of 2 heads" if head == "" else f"head {int(head) + 1} of 2"
            assert state(page).get("layer", ["2"]) == [str(layer + 1)]  # the default is not in the address
            assert state(page).get("head", [""]) == [head and str(int(head) + 1)]
            caption = page.inner_text(".picture figcaption")
            assert f"layer {layer + 1} of 2, {which}" in caption
            assert "score scaled_dot, map softmax" in caption and "not yet why" in caption
            wanted = weights[layer].mean(0) if head == "" else weights[layer][int(head)]
            for row, numbers in zip(table(page), wanted.tolist(), strict=True):
                assert row == pytest.approx(numbers, abs=1e-3)
    assert asked == []
    assert "layer" not in state(page) and state(page)["head"] == ["2"]


def test_all_heads_are_seen_at_once_and_one_is_chosen(watched, pictures):
    page = watched.open(f"text={TEXT}")
    page.click(".every summary")
    page.locator(".every canvas.regard-thumb").first.wait_for()
    assert page.locator(".every canvas.regard-thumb").count() == 4
    page.screenshot(path=pictures / "all-heads.png", full_page=True)
    page.click(".every button[aria-label='show layer 1, head 2']")
    assert "layer 1 of 2, head 2 of 2" in page.inner_text(".picture figcaption")
    assert state(page)["layer"] == ["1"] and state(page)["head"] == ["2"]
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"  # still there


def test_two_runs_stand_beside_each_other(watched, runs, pictures):
    page = watched.open(f"text={TEXT}")
    page.click("#add")
    watched.settled()
    assert [watched.answers(i)["As it is"] for i in (0, 1)] == [said(runs["heads"]), said(runs["sparse"])]
    assert "map entmax15" in page.locator(".panel").nth(1).inner_text()
    page.locator("#words button").first.click()
    watched.settled()
    assert watched.answers(1)["Deleted"] == said(runs["sparse"], TEXT, [0], "delete")
    assert state(page)["run"] == ["heads", "sparse"]
    page.screenshot(path=pictures / "two-runs.png", full_page=True)
    assert colours(pictures / "two-runs.png") > 30
    page.locator(".panel").nth(0).locator(".top select").select_option("sparse")
    watched.settled()
    assert watched.answers(0) == watched.answers(1)
    page.locator(".panel").nth(0).locator(".close").click()
    watched.settled()
    assert page.locator(".panel").count() == 1


def test_a_saved_page_opens_from_a_disk(watched, runs, pictures):
    watched.open(f"text={TEXT}&word=3&run=heads&layer=1&head=2&run=sparse&layer=&head=")
    before = [watched.answers(i) for i in (0, 1)]
    again = watched.saved(pictures / "saved.html")
    assert [again.answers(i) for i in (0, 1)] == before
    assert again.page.input_value("#text") == TEXT
    caption = again.page.locator(".picture figcaption").first
    assert "layer 1 of 2, head 2 of 2" in caption.inner_text()
    again.page.locator(".controls select").first.select_option("1")
    assert "layer 2 of 2, head 2 of 2" in caption.inner_text()
    again.page.locator(".card[data-how=delete]").first.click()
    assert again.columns() == ["du", "ga", "ge"]
    again.page.screenshot(path=pictures / "saved.png", full_page=True)
    assert colours(pictures / "saved.png") > 30
    again.page.context.close()
    assert again.wrong == [] and again.elsewhere == []


def test_all_of_it_works_with_keys(watched, runs):
    page = watched.open(f"text={TEXT}")
    page.focus("#text")
    for _ in range(4):  # three examples, then the first word
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    watched.settled()
    assert page.get_attribute("#words button", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.textContent") == "du"
    page.focus(".card[aria-checked=true]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.how") == "mask"
    page.keyboard.press("ArrowRight")
    assert watched.columns() == ["ga", "bo", "ge"]
    page.focus(".regard-scroll")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")  # the second column, which is the third word
    watched.settled()
    assert state(page)["word"] == ["1", "3"]


def test_the_token_opens_the_page(browser, runs):
    token = "a-token-of-some-length"
    with serving(runs, names=None, token=token) as there:
        context = browser.new_context()
        page = context.new_page()
        assert page.goto(f"http://127.0.0.1:{there.port}/").status == 401
        page.goto(f"http://127.0.0.1:{there.port}/?token={token}#text={TEXT}")
        page.locator(".card").wait_for()
        assert token not in page.url and state(page)["text"] == [TEXT]
        assert token not in page.evaluate("document.cookie")
        context.close()


def test_a_full_server_is_asked_again(watched, runs):
    turns = []

    def full(route):
        turns.append(route)
        if len(turns) < 3:
            route.fulfill(status=503, headers={"Retry-After": "0.1"}, body="{}")
        else:
            route.continue_()

    watched.page.route("**/api/inspect", full)
    watched.open(f"text={TEXT}")
    assert len(turns) == 3 and watched.answers() == {"As it is": said(runs["heads"])}
    assert all("503" in wrong for wrong in watched.wrong)
    watched.wrong.clear()  # the browser's own lines about the 503


def test_what_goes_wrong_is_said_on_the_page(watched):
    page = watched.open(f"text={TEXT}&word=99&layer=77&run=nobody&how=nonsense")
    assert list(watched.answers()) == ["As it is"]  # an address may say anything
    page.route("**/api/inspect", lambda route: route.abort())
    watched.type("fe fu")
    assert "does not answer" in page.inner_text(".problem")
    page.unroute("**/api/inspect")
    watched.type("fe fu gi")
    assert page.inner_text(".problem") == "" and list(watched.answers()) == ["As it is"]
    watched.wrong.clear()  # the browser's own line about the request that failed


CONTRAST = """() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll('h1, h2, h3, p, button, select, label, mark, textarea, a')];
  const shown = texts.filter(e => e.checkVisibility() && !e.closest('.picture') && !e.matches('.skip'));
  return shown.map(element => {
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), element.outerHTML.slice(0, 80)];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(watched, scheme):
    watched.page.emulate_media(color_scheme=scheme)
    page = watched.open(f"text={TEXT}&word=1&run=heads&run=sparse")
    found = page.evaluate(CONTRAST)
    assert len(found) > 20
    assert [(ratio, what) for ratio, what in found if ratio < 4.5] == []
    assert re.search("new|gone|same", page.inner_text(".card[data-how=delete]"))  # not by colour alone


def test_the_page_says_what_a_run_is_for_and_offers_examples(watched, runs):
    page = watched.open("run=sparse")  # not the first of the server
    system = runs["sparse"].system
    assert page.inner_text("#about").startswith("Translates sentences. Learned from generated pairs, copy")
    assert page.input_value("#text") == system.example
    buttons = page.locator("#examples button")
    assert buttons.all_inner_texts() == system.examples and len(set(system.examples)) == 3
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    watched.settled()
    assert state(page)["text"] == [system.examples[1]]
    assert watched.answers() == {"As it is": said(runs["sparse"], system.examples[1])}
    assert buttons.nth(1).evaluate("e => e === document.activeElement")
    watched.type("fe fu")
    page.locator(".top select").select_option("heads")
    watched.settled()
    assert page.input_value("#text") == "fe fu"  # what was typed stays
    buttons.nth(0).click()
    watched.settled()
    assert page.input_value("#text") == runs["heads"].system.example


def test_it_is_seen_that_the_page_is_working(watched, pictures):
    page = watched.open(f"text={TEXT}")
    working = page.locator(".working")
    assert not working.is_visible()
    held = []
    page.route("**/api/inspect", lambda route: held.append(route))
    page.fill("#text", "fe fu")
    page.wait_for_timeout(700)
    assert held and working.is_visible() and working.inner_text() == "Working …"
    assert working.evaluate("e => getComputedStyle(e).visibility") == "visible"
    assert page.get_attribute(".panel", "aria-busy") == "true"
    page.screenshot(path=pictures / "working.png")
    for route in held:
        route.continue_()
    watched.settled()
    assert not working.is_visible()


def test_a_probability_is_said_as_one_and_small_weights_have_no_number(watched):
    page = watched.open(f"text={TEXT}&word=1")
    assert "log p" not in page.inner_text("body")
    assert re.search(r"probability [<>]?\d\.\d{3}", page.inner_text(".card"))
    assert "<.01" not in page.locator(".picture").inner_text()


def test_the_focus_stays_where_it_was(watched):
    page = watched.open(f"text={TEXT}")

    def focused(selector):
        return page.locator(selector).first.evaluate("e => e === document.activeElement")

    page.locator(".regard-top .regard-word").nth(2).focus()
    page.keyboard.press("Enter")
    watched.settled()
    assert focused(".regard-top [data-index='2']") and state(page)["word"] == ["3"]
    page.click(".card[data-how=delete]")
    page.locator(".regard-top .regard-word").nth(2).focus()  # the fourth word: the third is deleted
    page.keyboard.press("Enter")
    watched.settled()
    assert state(page)["word"] == ["3", "4"] and focused("#words button:nth-child(4)")  # it left the picture
    page.locator(".picture summary").focus()
    page.keyboard.press("Enter")
    page.locator("#words button").first.click()
    page.locator(".picture summary").focus()
    watched.settled()
    assert page.locator(".picture details[open]").count() == 1 and focused(".picture summary")
    page.click("#add")
    watched.settled()
    page.locator(".panel .close").nth(1).click()
    watched.settled()
    assert focused(".panel .top select")


def test_words_of_a_saved_page_stand_beside_their_rows(watched, browser, tmp_path):
    page = watched.open(f"text={TEXT}")
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "saved.html")
    again = browser.new_page()
    again.goto((tmp_path / "saved.html").as_uri())
    again.locator(".regard-left .regard-word").first.wait_for()
    off = again.evaluate("""() => [...document.querySelectorAll('.regard-left .regard-word')].map(node => {
        const range = document.createRange(), grid = document.querySelector('.regard-scroll').grid;
        range.selectNodeContents(node);
        const {top, bottom} = range.getBoundingClientRect();
        const start = document.querySelector('.regard-body').getBoundingClientRect().top;
        return Math.abs((top + bottom) / 2 - start - (Number(node.dataset.index) + .5) * grid.cell);
    })""")
    again.close()
    assert off and max(off) < 2


EMOJI = "👩‍🚀 🇩🇪 👍🏽 1️⃣ e\u0301"


def test_emoji_are_kept_whole(watched):
    page = watched.open()
    watched.type(EMOJI)
    assert page.locator("#words button").all_text_contents() == EMOJI.split()
    assert watched.columns() == EMOJI.split()
    watched.type("我👩‍🚀爱🇩🇪")
    assert page.locator("#words button").all_text_contents() == ["我", "👩‍🚀", "爱", "🇩🇪"]
    sideways = "w => w.map(e => getComputedStyle(e).textOrientation)"
    assert set(page.locator(".regard-top .regard-word").evaluate_all(sideways)) == {"sideways"}
