"""A server of tiny runs, and a page that is watched."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from serve.tiny_server import opened, serving


@pytest.fixture(scope="session")
def runs():
    """Two runs by name: with heads, and sparse."""
    return opened("heads", "sparse")


@pytest.fixture(scope="session")
def client(runs):
    """A client of a server of these runs."""
    with serving(runs) as found:
        yield found


@dataclass
class Watched:
    """A page of the browser, and all that went wrong on it or left the machine."""

    page: object
    address: str
    wrong: list = field(default_factory=list)
    elsewhere: list = field(default_factory=list)

    def watch(self):
        """Listen to everything."""
        page = self.page
        page.set_default_timeout(20_000)
        page.on("console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self._asked(request.url))
        return self

    def _asked(self, url):
        parts = urlsplit(url)
        if (
            parts.scheme in ("http", "https", "ws", "wss")
            and f"{parts.scheme}://{parts.netloc}/" != self.address
        ):
            self.elsewhere.append(url)

    def open(self, state=""):
        """Open the page in a state, and wait for its answers."""
        self.page.goto(f"{self.address}#{state}")
        return self.settled()

    def type(self, text):
        """Type a sentence, and wait for its answer."""
        self.page.fill("#text", text)
        self.page.press("#text", "Enter")
        return self.settled()

    def settled(self):
        """Wait until nothing is being asked."""
        self.page.wait_for_timeout(50)
        from playwright.sync_api import expect

        expect(self.page.locator(".panel").first).to_be_visible(timeout=20_000)
        expect(self.page.locator("[aria-busy]")).to_have_count(0, timeout=20_000)
        return self.page

    def saved(self, file):
        """The page as it is saved to a file and opened again, without a network."""
        with self.page.expect_download() as download:
            self.page.click("#save")
        download.value.save_as(file)
        again = Watched(self.page.context.browser.new_context(offline=True).new_page(), "").watch()
        again.page.goto(file.as_uri())
        again.settled()
        return again

    def answers(self, panel=0):
        """The answers of a panel by name."""
        cards = self.page.locator(".panel").nth(panel).locator(".card").all()
        return {c.locator("h3").inner_text(): c.locator(".answer").inner_text() for c in cards}

    def columns(self, panel=0):
        """The source words along its heat map."""
        return self.page.locator(".panel").nth(panel).locator(".regard-top .regard-word").all_inner_texts()


@pytest.fixture
def watched(browser, client):
    """A page; nothing may go wrong on it, and nothing may be asked of another host."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    found = Watched(context.new_page(), f"http://127.0.0.1:{client.port}/").watch()
    yield found
    context.close()
    assert found.wrong == []
    assert found.elsewhere == []


@pytest.fixture
def pictures(tmp_path):
    """Where screenshots go: into REGARD_SCREENSHOTS, if that is set."""
    folder = Path(os.environ.get("REGARD_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
