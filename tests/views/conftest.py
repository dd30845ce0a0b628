"""A browser for the tests that look at pages: the Chromium of this machine, if it has one."""

import shutil

import pytest


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium; without one the tests that need it are skipped, and say so."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("TESTS IN A BROWSER ARE SKIPPED: no chromium was found (make browser installs one)")
    api = pytest.importorskip(
        "playwright.sync_api", reason="TESTS IN A BROWSER ARE SKIPPED: pip install playwright"
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
