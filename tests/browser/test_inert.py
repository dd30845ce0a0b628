"""Text stays text: whatever a sentence or the name of a run says, nothing of it runs."""

import json
import shutil

import pytest

from inspection.tiny_runs import folder_of
from regard.serve import open_runs
from serve.tiny_server import serving

NASTY = [
    "<script>window.hit=1</script>",
    '"><img src=x onerror=window.hit=1>',
    "</script><script>window.hit=1</script>",
    "<svg/onload=window.hit=1> &lt;b&gt; &amp;",
    "javascript:window.hit=1 ' onfocus=window.hit=1 autofocus='",
    "\u202eabc שלום عربى 👩‍🚀 e\u0301",
    "nul \x00 \x07 end",
]
LONE = "half \ud83d of \udc00 pairs"


def hit(page):
    return page.evaluate(
        "window.hit !== undefined || document.querySelector('#panels img, #words img') !== null"
    )


@pytest.mark.parametrize("text", NASTY)
def test_a_sentence_is_text(watched, text):
    page = watched.open()
    watched.type(text)
    shown = [word.replace("\x00", "␀").replace("\x07", "␇") for word in text.split()]
    assert page.locator("#words button").all_text_contents() == shown
    page.locator("#words button").first.click()
    watched.settled()
    assert len(watched.answers()) == 3
    page.goto("about:blank")
    page.goto(f"{watched.address}#text={text}")
    watched.settled()
    assert not hit(page)


def test_halves_of_surrogate_pairs_are_replaced(watched):
    page = watched.open()
    page.evaluate(
        f"""() => {{
          const box = document.getElementById('text');
          box.value = {json.dumps(LONE)};
          box.dispatchEvent(new Event('input'));
        }}"""
    )
    watched.settled()
    assert page.locator("#words button").all_text_contents() == ["half", "�", "of", "�", "pairs"]


def test_ten_thousand_tokens_get_a_sentence_and_the_next_text_an_answer(watched):
    page = watched.open()
    text = "du ga bo " * 1112
    watched.type(text)
    assert "the text has 10,008 tokens; at most 512" in page.inner_text(".problem")
    assert page.input_value("#text") == text
    watched.type("du ga")
    assert page.inner_text(".problem") == "" and list(watched.answers()) == ["As it is"]
    watched.wrong[:] = [wrong for wrong in watched.wrong if "422" not in wrong]  # the browser's own line


def test_the_name_of_a_run_is_text_in_the_page_and_in_its_file(
    watched, browser, runs, tmp_path_factory, client
):
    name = "<img src=x onerror=window.hit=1>"
    folder = tmp_path_factory.mktemp("named")
    shutil.copytree(folder_of("heads"), folder / name)
    with serving(open_runs([folder / name])) as there:
        watched.address = f"http://127.0.0.1:{there.port}/"
        page = watched.open("text=</script><script>window.hit=1</script> du&word=2")
        assert name in page.inner_text(".picture figcaption") and not hit(page)
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(folder / "saved.html")
    context = browser.new_context(offline=True)
    again = type(watched)(context.new_page(), "").watch()
    again.page.goto((folder / "saved.html").as_uri())
    again.settled()
    assert name in again.page.inner_text(".picture figcaption") and not hit(again.page)
    assert len(again.answers()) == 3
    context.close()
    assert again.wrong == [] and again.elsewhere == []


def test_the_policy_holds(watched):
    page = watched.open()
    page.evaluate("""() => {
      const script = document.createElement('script');
      document.body.append(script);
      try { script.text = 'window.hit = 1'; } catch {}
      try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hit=1>'); } catch {}
      const image = document.createElement('img');
      try { image.setAttribute('onerror', 'window.hit = 1'); } catch {}
      image.src = '/nothing';
      document.body.append(image);
    }""")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit === undefined")
    assert watched.wrong  # the browser has said what it refused
    watched.wrong.clear()
