"""The browser of the tests that look at pages, by the name they know it by."""

import pytest


@pytest.fixture(scope="session")
def chromium(browser):
    """A headless Chromium."""
    return browser
