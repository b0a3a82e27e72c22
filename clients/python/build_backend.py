"""The build backend of the package gamed-client (PEP 517), with the standard library only.

The folder gamed_client is the package, unchanged. Each older name beside it becomes the `__init__.py` of a package of
its own, because type checkers read `py.typed` in packages only (PEP 561).
The same files and the same zlib give the same bytes.
"""

import base64
import gzip
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036 - pip runs this with the Python that it installs for
    sys.exit("Building gamed-client needs Python 3.11 or newer. Install the wheel instead; it needs 3.9.")

import tomllib

HERE = Path(__file__).resolve().parent
PACKAGE = tuple(
    f"gamed_client/{name}"
    for name in ("__init__.py", "__main__.py", "aio.py", "assets.py", "py.typed", "sync.py", "texts.py")
)
OLDER = ("gamed_sync", "gamed_assets", "gamed_aio", "gamed_texts")
"""The names of its modules until 1.0."""
SOURCES = (*PACKAGE, *(f"{name}.py" for name in OLDER), "README.md", "build_backend.py", "pyproject.toml")
WHEEL = b"Wheel-Version: 1.0\nGenerator: gamed build_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
YEAR_1980 = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold."""
EPOCH_1980 = 315532800


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Write the wheel into a folder; return its file name (PEP 517)."""
    project = _project()
    stem = f"gamed_client-{project['version']}"
    files = {name: (HERE / name).read_bytes() for name in PACKAGE}
    for name in OLDER:
        files[f"{name}/__init__.py"] = (HERE / f"{name}.py").read_bytes()
        files[f"{name}/py.typed"] = b""
    files |= {f"{stem}.dist-info/{name}": data for name, data in _dist_info(project).items()}
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items()).encode()
    files[record] += f"{record},,\n".encode()
    write_zip(Path(wheel_directory) / f"{stem}-py3-none-any.whl", files)
    return f"{stem}-py3-none-any.whl"


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Write the source archive into a folder; return its file name (PEP 517)."""
    project = _project()
    stem = f"gamed_client-{project['version']}"
    files = {f"{stem}/{name}": (HERE / name).read_bytes() for name in (*SOURCES, *_licences())}
    files[f"{stem}/PKG-INFO"] = _dist_info(project)["METADATA"]
    write_tar_gz(Path(sdist_directory) / f"{stem}.tar.gz", files)
    return f"{stem}.tar.gz"


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a zip whose bytes depend on these files and on zlib alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, YEAR_1980)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # Unix, also where Windows writes it
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def write_tar_gz(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a compressed tar whose bytes depend on these files and on zlib alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, EPOCH_1980
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def _project() -> dict[str, Any]:
    """Read the table `project`, and the version out of the package."""
    project: dict[str, Any] = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]
    found = re.search(r'^__version__ = "([^"]+)"$', (HERE / PACKAGE[0]).read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{PACKAGE[0]} lacks its __version__")
    return {**project, "version": found[1]}


def _dist_info(project: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of `.dist-info` but RECORD (core metadata 2.1, with a licence 2.4)."""
    licence = project.get("license")
    lines = [
        f"Metadata-Version: {'2.4' if licence else '2.1'}",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        *(f"Author: {author['name']}" for author in project.get("authors", [])),
        *(f"Project-URL: {label}, {address}" for label, address in project.get("urls", {}).items()),
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {name}" for name in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *([f"License-Expression: {licence}"] if licence else []),
        *(f"License-File: {name}" for name in _licences()),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {each}; extra == "{extra}"' for each in requirements]
    lines += ["Description-Content-Type: text/markdown", "", (HERE / project["readme"]).read_text("utf-8")]
    scripts = "".join(f"{name} = {call}\n" for name, call in project["scripts"].items())
    return {
        "METADATA": "\n".join(lines).encode(),
        "WHEEL": WHEEL,
        "entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
        "top_level.txt": "".join(f"{name}\n" for name in ("gamed_client", *OLDER)).encode(),
        **{f"licenses/{name}": (HERE / name).read_bytes() for name in _licences()},
    }


def _licences() -> list[str]:
    """Return the name of the file with the licence's text; none before one is chosen."""
    return [path.name for path in HERE.glob("LICENSE")]


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
