"""Fetch the JavaScript that the page and its tests load, as it was published: `python -m dev.vendor_page`.

Each package is fetched with `npm pack`, compared with the integrity hash that is written here, and only the files that are needed
are kept, with their licence. A bare import (`from "preact"`) becomes a relative one: the page has no build step, and its content
security policy no room for an import map. Running it again changes nothing; a new version is a new line with its hash
(`npm view NAME@VERSION dist.integrity`).
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "swarm/web/static/vendor"
TESTS = ROOT / "tests/e2e/vendor"


@dataclass(frozen=True)
class Package:
    """A package of the npm registry, pinned, and where which of its files belong."""

    name: str
    version: str
    sha512: str
    folder: Path
    files: dict[str, str]


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        PAGE,
        {"dist/preact.mjs": "preact.mjs", "hooks/dist/hooks.mjs": "hooks.mjs", "LICENSE": "LICENSE.preact"},
    ),
    Package(
        "htm",
        "3.1.1",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        PAGE,
        {"dist/htm.mjs": "htm.mjs", "LICENSE": "LICENSE.htm"},
    ),
    Package(
        "axe-core",
        "4.14.1",
        "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        TESTS,
        {"axe.min.js": "axe.min.js", "LICENSE": "LICENSE.axe-core"},
    ),
)


def vendor(package: Package) -> list[Path]:
    """Fetch and check the package, and write its files; returns where they are."""
    with tempfile.TemporaryDirectory() as folder:
        archive = _fetch(package, Path(folder))
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != package.sha512:
            raise SystemExit(f"{package.name} {package.version} is not what it was: sha512-{found} came")
        package.folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as opened:
            return [_write(package, opened, source, name) for source, name in package.files.items()]


def _fetch(package: Package, folder: Path) -> Path:
    asked = ["npm", "pack", f"{package.name}@{package.version}", "--silent", "--pack-destination", str(folder)]
    subprocess.run(asked, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.tgz"))


def _write(package: Package, opened: tarfile.TarFile, source: str, name: str) -> Path:
    member = opened.extractfile(f"package/{source}")
    if member is None:
        raise SystemExit(f"{package.name} {package.version} has no {source}")
    text = member.read().decode()
    if name.endswith(".mjs"):
        text = text.replace('from"preact"', 'from"./preact.mjs"')
        text = "\n".join(line for line in text.split("\n") if not line.startswith("//# sourceMappingURL="))
    target = package.folder / name
    target.write_text(text)
    return target


def main() -> None:
    for package in PACKAGES:
        for path in vendor(package):
            sys.stdout.write(
                f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes, {package.name} {package.version}\n"
            )


if __name__ == "__main__":
    main()
