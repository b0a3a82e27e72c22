"""A browser is named by its User-Agent as people know it, and nothing else of the field is kept."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.sessions.browser_rules import AGENT_CHARACTERS, BrowserName

KIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
APPLE = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
WINDOWS, MAC = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X)"
KNOWN = {
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": ("Firefox", "Linux"),
    f"{WINDOWS} {KIT} Chrome/138.0.0.0 Safari/537.36": ("Chrome", "Windows"),
    f"{WINDOWS} {KIT} Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0": ("Edge", "Windows"),
    f"{MAC} {KIT} Chrome/138.0.0.0 Safari/537.36 OPR/120.0.0.0": ("Opera", "macOS"),
    f"{MAC} {APPLE} Version/18.5 Safari/605.1.15": ("Safari", "macOS"),
    f"{PHONE} {APPLE} Version/18.5 Mobile/15E148 Safari/604.1": ("Safari", "iOS"),
    f"{PHONE} {APPLE} CriOS/138.0.7204.53 Mobile/15E148 Safari/604.1": ("Chrome", "iOS"),
    f"{PHONE} {APPLE} FxiOS/140.0 Mobile/15E148 Safari/604.1": ("Firefox", "iOS"),
    f"Mozilla/5.0 (Linux; Android 10; K) {KIT} Chrome/138.0.0.0 Mobile Safari/537.36": ("Chrome", "Android"),
    f"Mozilla/5.0 (Linux; Android 10; K) {KIT} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36": (
        "Samsung Internet",
        "Android",
    ),
    f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {KIT} Chrome/138.0.0.0 Safari/537.36": ("Chrome", "ChromeOS"),
    "curl/7.88.1": (None, None),
    "Lynx/2.9.0 (Linux)": (None, "Linux"),
    "Firefox/1": ("Firefox", None),
}


class BrowserNameTests(SynchronousTestCase):
    def test_known(self) -> None:
        """Browsers are named as people know them, and a row gives the same name again."""
        for sent, (program, system) in KNOWN.items():
            name = BrowserName.of(sent)
            self.assertEqual((name.program, name.system), (program, system), sent)
            self.assertEqual(BrowserName.stored(name.to_text()), name)

    def test_nothing_known(self) -> None:
        """Without a field, or with one that says nothing, nothing is stored."""
        for sent in (None, "", "\x00", "<script>", "x" * 100_000):
            self.assertIsNone(BrowserName.of(sent).to_text())

    def test_bounded(self) -> None:
        """Only the first 512 characters count."""
        self.assertEqual(BrowserName.of("x" * (AGENT_CHARACTERS - 8) + "Firefox/").program, "Firefox")
        self.assertIsNone(BrowserName.of("x" * (AGENT_CHARACTERS - 7) + "Firefox/").program)
