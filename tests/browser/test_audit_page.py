"""The report of an audit in a browser: one part below the other."""

import pytest

import regard
from audits.test_audit import TEXTS, lexicon, lexicon_attention
from regard.audits.report_page import page as report_page

FLOW = """() => {
  const parts = [...document.querySelectorAll('main h2, main h3, main figure, main table')];
  const boxes = parts.map(one => [one, one.getBoundingClientRect()]);
  return boxes.flatMap(([one, box], i) => boxes.slice(i + 1)
    .filter(([other, next]) => !one.contains(other) && next.top < box.top + one.scrollHeight - 1
      && next.left < box.right - 1 && next.right > box.left + 1)
    .map(([other]) => `${one.textContent.slice(0, 40)} | ${other.textContent.slice(0, 40)}`));
}"""


@pytest.mark.parametrize(("width", "scheme"), [(1000, "light"), (380, "dark")])
def test_nothing_overprints_what_follows(browser, tmp_path, pictures, width, scheme):
    report = regard.audit(predict=lexicon, attention=lexicon_attention, intervene=lexicon, inputs=TEXTS)
    (tmp_path / "report.html").write_text(report_page([report]), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("figure[data-kind=bars]").first.wait_for()
    page.screenshot(path=pictures / f"audit-{scheme}.png", full_page=True)
    found, legends = page.evaluate(FLOW), page.locator(".regard-legend").all_inner_texts()
    page.close()
    assert found == []
    assert legends and all("an equal share, 1/" in text for text in legends)
