"""The web page in a headless Chromium: one context a page, with everything written down that it
requests, logs and throws. When it is closed, a request to anywhere but its server, an error of a
script or a violation of the policy fails the test.
"""

import shutil

# A sanitizer build beside other tests on two cores.
WAIT_MS = 30_000

# A refused request is logged by the browser itself; the tests look at those that they expect.
_EXPECTED = "Failed to load resource"


def open_browser(playwright):
    chromium = shutil.which("chromium")
    assert chromium, "no chromium; tools/packages/test.txt names the package"
    # Without a sandbox of its own it also runs as root in a container.
    return playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


class Page:
    """`with Page(browser, server) as page:`; options are those of a browser context."""

    def __init__(self, browser, server, path="/", **options):
        self.origin = f"http://127.0.0.1:{server.port}"
        self._browser = browser
        self._path = path
        self._options = {"viewport": {"width": 1000, "height": 700}} | options
        self.requests, self.errors, self.dialogs = [], [], []

    def __enter__(self):
        self.context = self._browser.new_context(**self._options)
        self.context.set_default_timeout(WAIT_MS)
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.context.on("page", lambda page: self.errors.append(f"opened {page.url}"))
        self.tab = self.context.new_page()
        self.errors.clear()  # our own page
        self.tab.on("console", self._log)
        self.tab.on("pageerror", lambda error: self.errors.append(f"thrown: {error}"))
        self.tab.on("dialog", self._dismiss)
        self.tab.goto(self.origin + self._path)
        return self

    def _log(self, message):
        if message.type in ("error", "warning") and _EXPECTED not in message.text:
            self.errors.append(f"{message.type}: {message.text}")

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def __exit__(self, kind, *_):
        self.context.close()
        if kind is None:
            self.check()

    def check(self):
        strangers = [url for url in self.requests if not url.startswith(self.origin + "/")]
        assert strangers == [], strangers
        assert self.errors == [], self.errors
        assert self.dialogs == [], self.dialogs

    # What a reader does and sees.

    def ask(self, text):
        self.tab.fill("#input", text)
        self.tab.press("#input", "Enter")

    def answered(self, n):
        """The n-th answer, once it is complete."""
        self.tab.wait_for_function(
            "n => document.querySelectorAll('.assistant').length >= n"
            " && !document.querySelector('#send.stop')",
            arg=n,
        )
        return self.tab.locator(".assistant").nth(n - 1)

    def text(self, selector):
        return self.tab.locator(selector).inner_text()

    def count(self, selector):
        return self.tab.locator(selector).count()

    def waits_for(self, expression, arg=None):
        self.tab.wait_for_function(expression, arg=arg)
