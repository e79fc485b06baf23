"""What is built to be installed holds everything, what the links in swarm/ lead to as well, and works where it is installed.

Tests of pyproject.toml.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.core.release import VERSION
from tests.e2e.cli_world import World

ROOT = Path(__file__).parents[2]
NEEDED = (
    "swarm/mailbox/message.py",
    "swarm/tasks/app.py",
    "swarm/store/lua/common.lua",
    "swarm/capabilities/team/board.lua",
    "swarm/definitions/shipped/build.md",
    "swarm/rehearsal/scenarios/demo.yaml",
    "swarm/py.typed",
    "swarm/web/templates/swarm.html",
)


def _build(kind: str, source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    [package] = folder.iterdir()
    return package


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    return _build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return _build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Iterator[World]:
    """A world whose `swarm` is the installed wheel, with the other packages of this environment."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin/python"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    [packages] = venv.glob("lib/*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    world = World(state=tmp_path / "s", home=tmp_path / "home", workspace=tmp_path / "work")
    world.home.mkdir()
    world.workspace.mkdir()
    yield world
    world.clear()


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_a_package_holds_every_module_script_and_definition_once(kind: str, request: pytest.FixtureRequest) -> None:
    package = request.getfixturevalue(kind)
    assert package.name.startswith(f"celery_swarm-{VERSION}")
    if kind == "sdist":
        with tarfile.open(package) as archive:
            names = [name.split("/", 1)[1] for name in archive.getnames()]
        assert "docs/coming-from.md" in names
    else:
        with zipfile.ZipFile(package) as archive:
            names = archive.namelist()
    assert not [name for name in NEEDED if names.count(name) != 1]
    served = [path.relative_to(ROOT).as_posix() for path in (ROOT / "swarm/web/static").rglob("*") if path.is_file()]
    assert served and set(served) <= set(names), "what the page loads is packed"
    sources = {
        path.relative_to(ROOT).as_posix() for suffix in ("py", "lua") for path in (ROOT / "swarm").rglob(f"*.{suffix}")
    }
    assert {name for name in sources if "__pycache__" not in name} <= set(names)


def test_the_source_distribution_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()
    assert _contents(_build("wheel", source, tmp_path / "built")) == _contents(wheel)


def test_the_installed_wheel_runs_a_job_with_its_own_files(installed: World) -> None:
    venv = installed.state.parent / "venv"
    variables = {**installed.environment(), "PYTHONPATH": ""}

    def run(*arguments: str | Path) -> str:
        ran = subprocess.run(
            [venv / "bin" / arguments[0], *arguments[1:]],
            cwd=installed.home,
            env=variables,
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert run("swarm", "--version") == f"swarm {VERSION}\n"
    assert str(venv) in run("python", "-c", "import swarm.tasks; print(swarm.__file__, swarm.tasks.__file__)")
    # Agents, their Lua and a worker process, all from the wheel.
    prompt = "TREE depth=1 fanout=2 steps=1"
    told = run("swarm", "run", "--json", "-q", "--rehearse", "tree", "-w", installed.workspace, prompt)
    assert '"completed"' in told


def test_images_and_manifests_name_this_release() -> None:
    texts = [path.read_text() for path in (ROOT / "deploy").rglob("*") if path.suffix in (".yaml", ".md")]
    tags = [tag for text in texts for tag in re.findall(r"(?:\bswarm:|newTag: \")(\d[\w.]*\d)", text)]
    assert len(tags) == 4 and set(tags) == {VERSION}
