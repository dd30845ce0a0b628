"""Saved pages in a real Chromium: drawn, escaped, moved through by hand and by keys."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from every import EVERY, SOURCE, TARGET, M, N, weights
from PIL import Image

from regard.views import heads, heat_map, lines, steps, words
from regard.views.ramps import place

every_view = pytest.mark.parametrize("name", EVERY)


@pytest.fixture
def open_page(chromium, tmp_path):
    """Save a view, open the file, and hold it to silence: no error, no request to anywhere, no dialog."""
    opened, noise = [], []

    def opens(view, **how):
        page = chromium.new_page(viewport={"width": how.pop("width", 1000), "height": 800}, **how)
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("dialog", lambda dialog: noise.append(dialog.message))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or noise.append(r.url))
        page.goto(view.save(tmp_path / f"{len(opened)}.html").as_uri())
        opened.append(page)
        return page

    yield opens
    for page in opened:
        page.close()
    assert noise == []


def pixels(page, selector="#view") -> np.ndarray:
    shot = page.locator(selector).first.screenshot()
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)


def tip(page, selector=".regard-tip") -> str:
    """What the tip says, without the marks that keep a word's direction to itself."""
    return page.locator(selector).inner_text().replace("\u2068", "").replace("\u2069", "")


@every_view
def test_it_is_drawn_in_both_schemes_fits_a_phone_and_has_its_numbers_as_a_table(name, open_page):
    page = open_page(EVERY[name](), width=380)
    for scheme, paper in (("light", [255, 255, 255]), ("dark", [0x14, 0x18, 0x1D])):
        page.emulate_media(color_scheme=scheme)
        found = pixels(page)
        assert (found[0, -1] == paper).all()
        assert (abs(found - paper).sum(-1) > 60).mean() > 0.005  # something is there
    assert page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth"
    )  # what is wide scrolls by itself
    assert page.locator("table").count() == 0  # made when it is asked for
    page.locator("summary").click()
    page.locator("table").first.wait_for()  # visible, made after the click
    assert page.locator("table td:not(:empty)").count() > 0


def test_tokens_are_shown_as_text(open_page):
    page = open_page(EVERY["heat_map"]())
    across = page.locator(".regard-top .regard-word").all_text_contents()
    down = page.locator(".regard-left .regard-word").all_text_contents()
    assert across == SOURCE
    assert down == ["je", "␀", "�", "$x^2$", "<b>"]
    assert page.locator("img, b, .regard script").count() == 0


def test_exact_zeros_are_absent_and_the_others_have_the_ramps_colours(open_page):
    view = heat_map(weights(), SOURCE, TARGET)
    page = open_page(view)
    p = view.matrices[0].weights
    assert page.locator(".regard-cells rect").count() == int((p != 0).sum())
    places = page.locator(".regard-cells rect").evaluate_all(
        "r => r.map(e => [+e.getAttribute('y'), +e.getAttribute('x')])"
    )
    assert sorted(map(tuple, places)) == sorted(zip(*map(list, np.nonzero(p)), strict=True))


def test_black_to_white_is_exact(open_page):
    page = open_page(heat_map(torch.tensor([[0.0, 1.0, 0.5]]), ramp="black_to_white"))
    fills = page.locator(".regard-cells rect").evaluate_all("r => r.map(e => e.getAttribute('fill'))")
    assert fills == ["rgb(0, 0, 0)", "rgb(255, 255, 255)", "rgb(128, 128, 128)"]


def test_canvas_and_svg_show_the_same_colours(open_page):
    p = torch.zeros(51, 51)  # more than SVG is used for
    p[3, 7], p[10, 20] = 0.5, 1.0
    page = open_page(heat_map(p))
    assert page.locator(".regard-cells").count() == 0
    js = """() => {
        const canvas = document.querySelector('.regard-canvas');
        const cell = document.querySelector('.regard-body').clientWidth / 51;
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return [[3, 7], [10, 20], [0, 0]].map(([i, j]) => {
            const at = 4 * (Math.floor((i + 0.5) * cell) * canvas.width + Math.floor((j + 0.5) * cell));
            return [...data.slice(at, at + 4)];
        });
    }"""
    half, full, nothing = page.evaluate(js)
    small = open_page(heat_map(torch.tensor([[0.5, 1.0]])))
    fills = small.locator(".regard-cells rect").evaluate_all("r => r.map(e => e.getAttribute('fill'))")
    assert [f"rgb({r}, {g}, {b})" for r, g, b, _ in (half, full)] == fills
    assert nothing[3] == 0  # transparent: the paper shows


def test_hovering_and_arrow_keys_tell_the_weight(open_page):
    view = heat_map(torch.tensor([[0.25, 0.75], [1.0, 0.0]]), ["a", "b"], ["u", "v"])
    page = open_page(view)
    page.locator(".regard-cells rect").nth(1).hover()
    assert tip(page) == "u → b: 0.75"
    page.mouse.move(900, 700)
    assert page.locator(".regard-tip").is_hidden()
    page.locator(".regard-scroll").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert tip(page) == "v → b: 0"
    assert tip(page, ".regard-spoken") == "v → b: 0"


def test_clicking_a_word_or_enter_on_it_tells_the_page(open_page):
    page = open_page(heat_map(weights(), SOURCE, TARGET))
    page.evaluate("window.told = []; document.addEventListener('regard:word', e => told.push(e.detail))")
    page.locator(".regard-top .regard-word").nth(1).click()
    page.locator(".regard-left .regard-word").nth(2).focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    said = page.evaluate("told")
    assert said[0] == {"side": "source", "index": 1, "matrix": 0}
    assert said[1]["side"] == "target" and len(said) == 2


def test_marked_words_are_marked_and_draw_can_be_called_again(open_page):
    page = open_page(heat_map(weights(), SOURCE, TARGET))
    page.evaluate("""() => {
        const data = JSON.parse(document.getElementById('data').textContent);
        const view = document.getElementById('view');
        regard.draw(view, data, {selected: [1, 3]});
        regard.draw(view, data, {selected: {target: [0], source: [1]}, mayClick: false});
    }""")
    assert page.locator("figure").count() == 1
    assert page.locator(".regard-selected").all_text_contents() == ["am", "je"]
    assert page.locator("button.regard-word").count() == 0


def test_layer_and_head_are_picked(open_page):
    view = heat_map([weights(3), weights(3, seed=1)], SOURCE, TARGET)
    page = open_page(view)
    assert page.locator("h3").inner_text() == "layer 1, head 1"
    page.get_by_label("layer", exact=True).select_option(label="2")
    page.get_by_label("head", exact=True).select_option(label="3")
    assert page.locator("h3").inner_text() == "layer 2, head 3"
    assert page.locator(".regard-cells rect").count() == int((view.matrices[5].weights != 0).sum())


def test_a_small_head_is_enlarged_and_put_back(open_page):
    page = open_page(heads([weights(2), weights(2, seed=1)], SOURCE, TARGET))
    thumbs = page.locator(".regard-small-one")
    assert thumbs.count() == 4
    thumbs.nth(3).click()
    assert page.locator("h3").inner_text() == "layer 2, head 2"
    assert page.locator(".regard-top .regard-word").count() == N
    page.get_by_text("all heads").click()
    assert thumbs.count() == 4 and thumbs.nth(3).evaluate("e => e === document.activeElement")


def test_steps_go_on_and_back(open_page):
    view = steps(weights(), SOURCE, TARGET)
    page = open_page(view)
    page.get_by_text("next").click()
    page.get_by_text("next").click()
    assert page.locator(".regard-said .regard-word").all_text_contents() == ["je", "␀", "�"]
    coloured = page.locator(".regard-lit").evaluate_all("w => w.map(e => e.style.backgroundColor !== '')")
    assert coloured == (view.matrices[0].weights[2] != 0).tolist()
    page.get_by_text("back").click()
    assert page.get_by_text(f"step 2 of {M}").is_visible()


def test_lines_of_one_word_are_kept(open_page):
    view = lines(weights(), SOURCE, TARGET)
    page = open_page(view)
    p = view.matrices[0].weights
    assert page.locator(".regard-lines line").count() == int((p != 0).sum())
    page.locator(".regard-target .regard-word").nth(1).hover()
    visible = page.locator(".regard-lines line").evaluate_all(
        "l => l.filter(e => getComputedStyle(e).display !== 'none').length"
    )
    assert visible == int((p[1] != 0).sum())


def test_of_very_many_lines_the_strongest_are_drawn(open_page):
    torch.manual_seed(0)
    p = torch.rand(100, 100)
    page = open_page(lines(p))
    drawn = page.locator(".regard-lines line").evaluate_all(
        "l => l.map(e => +e.getAttribute('stroke-width'))"
    )
    assert len(drawn) == 4000 and "4000 of 10000" in page.locator(".regard-small").inner_text()
    least = p.flatten().sort(descending=True).values[3999].item() / p.max().item()
    assert min(drawn) == pytest.approx(0.6 + 4 * least, abs=0.02)  # two bytes a weight: nearly


def test_a_long_sentence_scrolls_and_keeps_its_words_in_sight(open_page):
    n = 140
    page = open_page(heat_map(torch.eye(n), [f"s{i}" for i in range(n)], [f"t{i}" for i in range(n)]))
    page.evaluate("() => document.querySelector('.regard-scroll').scrollTo(1500, 1500)")
    from playwright.sync_api import expect

    expect(page.locator(".regard-left .regard-word").get_by_text("t0", exact=True)).to_have_count(0)
    frame = page.locator(".regard-scroll").bounding_box()
    for side in ("top", "left"):
        box = page.locator(f".regard-{side}").bounding_box()
        assert abs((box["y"] - frame["y"]) if side == "top" else (box["x"] - frame["x"])) < 1
        words_there = page.locator(f".regard-{side} .regard-word").count()
        assert 10 < words_there < n  # those in sight, not all


@pytest.mark.parametrize("n", [1024, pytest.param(4096, marks=pytest.mark.slow)])
def test_large_maps_are_drawn_panned_and_zoomed(n, open_page):
    p = torch.zeros(n, n)
    p[torch.arange(n), torch.arange(n)] = 1.0
    page = open_page(heat_map(p))
    whole = pixels(page, ".regard-canvas")
    assert (whole.sum(-1) < 600).any(-1).mean() > 0.9  # the diagonal, thinner than a pixel, is in every row
    page.locator(".regard-scroll").focus()
    page.keyboard.press("Control+End")
    assert tip(page) == f"{n} → {n}: 1"
    for _ in range(14):
        page.get_by_label("larger cells").click()
    page.locator(".regard-scroll").focus()
    page.keyboard.press("ArrowLeft")
    assert tip(page) == f"{n} → {n - 1}: 0"
    box = page.locator(".regard-cursor").bounding_box()
    assert box["width"] > 10


def test_ten_thousand_words_are_shown(open_page):
    page = open_page(words(torch.rand(10_000), ["</script>"] * 10_000))
    assert page.locator(".regard-lit").count() == 10_000


def test_right_to_left_text_flows_from_the_right(open_page):
    page = open_page(words(torch.tensor([0.5, 0.5]), ["שלום", "עולם"]))
    first, second = (page.locator(".regard-lit").nth(i).bounding_box() for i in (0, 1))
    assert first["x"] > second["x"]
    page = open_page(heat_map(torch.eye(2), ["שלום", "abc"], ["مرحبا", "b"]))
    assert page.locator(".regard-top .regard-word").evaluate_all(
        "w => w.map(e => getComputedStyle(e).direction)"
    ) == ["rtl", "ltr"]


def test_a_notebooks_frame_draws_too(chromium):
    page = chromium.new_page()
    page.set_content(f"<body>{heat_map(weights(), SOURCE, TARGET)._repr_html_()}</body>")
    frame = page.frame_locator("iframe")
    frame.locator(".regard-cells rect").first.wait_for()
    assert frame.locator(".regard-top .regard-word").count() == N
    page.close()


def test_the_scheme_may_change_while_the_page_is_open(open_page):
    page = open_page(heat_map([weights(3), weights(3)], SOURCE, TARGET), color_scheme="light")
    page.get_by_label("layer", exact=True).select_option(label="2")
    before = page.locator(".regard-cells rect").first.get_attribute("fill")
    page.emulate_media(color_scheme="dark")
    from playwright.sync_api import expect

    expect(page.locator(".regard-cells rect").first).not_to_have_attribute("fill", before)
    assert page.locator("h3").inner_text() == "layer 2, head 1"


@every_view
def test_a_figure_is_as_high_as_what_is_in_it(name, open_page):
    page = open_page(EVERY[name](), width=380)
    inside, high = page.locator("figure").evaluate("f => [f.scrollHeight, f.clientHeight]")
    assert inside <= high + 1  # else it overprints what follows


BESIDE = """() => {
    const mid = box => [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const body = document.querySelector('.regard-body').getBoundingClientRect();
    const grid = document.querySelector('.regard-scroll').grid;
    const text = node => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return range.getBoundingClientRect();
    };
    return ['.regard-left', '.regard-top'].flatMap((side, axis) =>
        [...document.querySelectorAll(`${side} .regard-word`)].map(node => {
            const start = axis ? body.left : body.top, k = Number(node.dataset.index);
            return Math.abs(mid(text(node))[1 - axis] - (start + (k + .5) * grid.cell));
        }));
}"""


@pytest.mark.parametrize("clicks", [True, False], ids=["buttons", "spans"])
@pytest.mark.parametrize("zooms", [0, 4])
def test_words_stand_beside_their_rows_and_above_their_columns(open_page, clicks, zooms):
    n = 60 if zooms else 4
    page = open_page(heat_map(torch.eye(n), [f"s{i}" for i in range(n)], [f"t{i}" for i in range(n)]))
    page.evaluate(
        """may => regard.draw(document.getElementById('view'),
            JSON.parse(document.getElementById('data').textContent), {mayClick: may})""",
        clicks,
    )
    for _ in range(zooms):
        page.get_by_label("smaller cells").click()
    off = page.evaluate(BESIDE)
    assert len(off) >= 8 and max(off) < 2
    page.evaluate("document.querySelector('.regard-scroll').scrollTo(9999, 9999)")
    page.wait_for_timeout(100)
    ends = page.evaluate("""() => {
        const frame = document.querySelector('.regard-scroll').getBoundingClientRect();
        return [...document.querySelectorAll('.regard-left .regard-word')].map(
            node => frame.bottom - node.getBoundingClientRect().bottom);
    }""")
    assert min(ends) > -0.5  # the last one is not clipped


def test_words_have_the_colours_of_paper(open_page):
    from regard.views.picture import shades

    for p in (torch.full((4,), 0.25), torch.softmax(torch.arange(30.0), 0), torch.tensor([1e-4, -3e-4, 0])):
        view = words(p)
        page = open_page(view, color_scheme="light")
        total = float(p.abs().sum()) if view.shares else 1.0
        drawn = page.locator(".regard-lit").evaluate_all(
            "w => w.map(e => [getComputedStyle(e).backgroundColor, parseFloat(e.lastChild.style.width)])"
        )
        for w, (colour, wide) in zip(p.tolist(), drawn, strict=True):
            assert wide == pytest.approx(100 * place(w / total, len(p)), abs=0.1)
            if w > 0:
                found = [int(part) / 255 for part in colour[4:-1].split(", ")]
                assert found == pytest.approx(shades()(place(w / total, len(p)))[:3], abs=0.03)
        assert f"an equal share, 1/{len(p)} = " in page.locator(".regard-legend").inner_text()


@pytest.mark.parametrize("view", [heat_map, words, lines])
def test_unknown_words_are_marked_and_the_legend_says_so(open_page, view):
    source = ["the", "xylograph", "town"]
    page = open_page(replace(view(torch.full((2, 3), 1 / 3), source, ["a", "b"]), unknown=(1,)))
    marked = page.locator(".regard-unknown:not(.regard-legend *)")
    assert marked.all_text_contents() == ["xylograph"] and "unknown" in marked.get_attribute("title")
    assert "unknown to the model" in page.locator(".regard-legend").inner_text()
    looks = "one => [getComputedStyle(one).outlineStyle, getComputedStyle(one).textDecorationLine]"
    legend = page.locator(".regard-legend .regard-unknown")
    assert legend.evaluate(looks) == marked.evaluate(looks), "words and legend have the same mark"
    assert open_page(view(torch.ones(1, 3), source)).locator(".regard-unknown").count() == 0


def test_column_words_are_turned_whole_whatever_their_script(open_page):
    page = open_page(heat_map(torch.ones(1, 1), ["☂☂"], ["☂☂"]))

    def ink(side):
        found = pixels(page, f".regard-{side} .regard-word").sum(-1) < 500
        rows, columns = np.nonzero(found)
        return found[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]

    across, down = ink("left"), np.rot90(ink("top"), -1)  # read from below
    high, wide = (min(one) for one in zip(across.shape, down.shape, strict=True))
    straight, turned = (
        (across[:high, :wide] != one[:high, :wide]).mean() for one in (down, np.rot90(ink("top")))
    )
    assert abs(across.shape[1] - down.shape[1]) <= 2 and straight <= turned


def test_a_cell_has_no_number_below_a_hundredth(open_page):
    page = open_page(heat_map(torch.tensor([[0.004, 0.996]])))
    assert page.locator(".regard-cells rect").count() == 2
    assert page.locator(".regard-numbers text").all_text_contents() == ["1"]


def test_focus_and_the_open_table_stay_when_it_is_drawn_again(open_page):
    page = open_page(heat_map(weights(), SOURCE, TARGET))
    again = """() => regard.draw(document.getElementById('view'),
        JSON.parse(document.getElementById('data').textContent), {selected: [1]})"""
    page.locator("summary").click()
    for what in (".regard-top .regard-word >> nth=1", "[aria-label='larger cells']", "summary"):
        page.locator(what).focus()
        page.evaluate(again)
        assert page.locator(what).evaluate("e => e === document.activeElement"), what
    assert page.locator("details[open] table").count() == 1
    page.locator(".regard-scroll").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    said = tip(page)
    page.evaluate(again)
    assert tip(page) == said  # the same cell
