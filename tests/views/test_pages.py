"""Pages: one file, nothing from elsewhere, and nothing runs that is not ours."""

import html
import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
import torch
from every import EVERY, SOURCE, TARGET, weights

from regard.views import heat_map, words
from regard.views.assets import embed, script, style

every_view = pytest.mark.parametrize("name", EVERY)


@every_view
def test_the_policy_allows_what_the_page_holds_and_nothing_else(name):
    page = EVERY[name]().page()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    for tag in ("script", "style"):
        for text in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S):
            assert f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert len(re.findall(r"<script[ >]", page)) == 3  # the data, draw.js, the start


@every_view
def test_it_asks_nothing_of_anybody_and_tokens_end_no_element(name):
    page = EVERY[name]().page()
    assert not re.search(r"(src|href|action)\s*=\s*[\"']?\s*(https?:)?//", page)
    assert set(re.findall(r"https?://[^\s\"'<>)]*", page)) <= {"http://www.w3.org/2000/svg"}
    assert "<img" not in page and "<b>" not in page and "<i>" not in page
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert json.loads(data) == EVERY[name]().data()
    assert not re.search(r"\son\w+\s*=|\sstyle\s*=", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S))


def test_our_script_puts_text_in_only_as_text():
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script()
    )
    assert "</script" not in script() and "</style" not in style()
    assert "@import" not in style() and "url(" not in style()


def test_json_in_a_script_element_cannot_leave_it():
    hostile = ["</script><script>alert(1)</script>", "<!--<script>", "\u2028]]>&amp;"]
    text = embed(hostile)
    assert not re.search(r"[<>&\u2028]", text) and json.loads(text) == hostile


def test_a_page_of_20_by_20_is_small():
    sentence = [f"word{i}" for i in range(20)]
    page = heat_map(torch.rand(20, 20), sentence, sentence).page()
    assert len(page.encode()) < 150_000


def test_ten_thousand_tokens_are_a_page():
    page = words(torch.full((10_000,), 1e-4), ["</script>"] * 10_000).page()
    assert page.count("</script>") == 3


def test_a_notebook_gets_the_page_in_a_frame_of_its_own():
    view = heat_map(weights(), SOURCE, TARGET, title='"quoted"')
    cell = view._repr_html_()
    assert (
        cell.startswith("<iframe") and 'sandbox="allow-scripts"' in cell and "allow-same-origin" not in cell
    )
    (inside,) = re.findall(r'srcdoc="([^"]*)"', cell)
    assert html.unescape(inside) == view.page()
