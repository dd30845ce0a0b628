"""The page of runs that read stories, passages and pictures: what it begins with, and its words."""

import base64

import numpy as np
import pytest

from regard.serve import open_runs
from regard.views.png import data_url
from serve.tiny_server import serving

DROP = """(url) => {
  const bytes = Uint8Array.from(atob(url.split(',')[1]), letter => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], 'dropped.png', {type: 'image/png'}));
  document.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


@pytest.fixture
def tasks(tiny_run, watched):
    """Runs of four tasks on a page."""
    names = ["reading", "answering", "visual_question", "image"]
    runs = open_runs([tiny_run(name).folder for name in names])
    with serving(runs) as there:
        watched.address = f"http://127.0.0.1:{there.port}/"
        yield runs


@pytest.mark.parametrize(
    ("name", "units"), [("reading", "words"), ("answering", "sentences"), ("visual_question", "regions")]
)
def test_a_run_of_questions_begins_with_a_question(tasks, watched, pictures, name, units):
    page, system = watched.open(f"run={name}"), tasks[name].system
    assert page.inner_text("#second-says") == "Question"
    assert page.input_value("#second") == system.second_examples[0]
    assert page.inner_text(".problem") == ""
    assert page.inner_text("#question-says").endswith(units)
    (answer,) = system.answer([system.input(system.examples[0], system.second_examples[0])])
    assert watched.answers()["As it is"] == " ".join(answer.said.split())
    page.locator("#examples button").nth(1).click()
    watched.settled()
    assert page.input_value("#second") == system.second_examples[1]
    page.screenshot(path=pictures / f"{name}.png", full_page=True)


def test_a_picture_is_dropped_and_what_is_none_is_said(tasks, watched, pictures):
    page = watched.open("run=image")
    before = page.locator(".picture image").get_attribute("href")
    page.evaluate(DROP, data_url(np.full((40, 30, 3), 200, np.uint8)))
    watched.settled()
    assert page.locator(".picture image").get_attribute("href") != before
    assert page.inner_text(".problem") == "" and page.inner_text("#question-says") == "Mask or delete regions"
    page.evaluate(DROP, "data:image/png;base64," + base64.b64encode(b"no picture").decode())
    from playwright.sync_api import expect

    expect(page.locator("#status")).to_contain_text("not a picture")
    page.screenshot(path=pictures / "dropped.png", full_page=True)
