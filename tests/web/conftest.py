import pytest
from playwright.sync_api import sync_playwright

from harness.browser import Page, open_browser


@pytest.fixture(scope="module")
def browser():
    # Not longer than a module: while it runs, no other event loop may in this thread.
    with sync_playwright() as playwright:
        opened = open_browser(playwright)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """visit(server, **options): a page; checked when the `with` ends."""
    return lambda server, **options: Page(browser, server, **options)
