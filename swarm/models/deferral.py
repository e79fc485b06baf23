"""The SDK's packages, run when a name of theirs is first missing.

`import anthropic` runs three thousand modules, nearly all of them types that no request here uses: most of a worker's start, and 20 MB. Its
packages only gather names from their modules. So each package begins empty, and a name that is asked for is taken from its module. What
cannot be found that way runs the package as usual; nothing of the SDK is changed.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_SDK = "anthropic"
_IMPORT = re.compile(r"^from (\.[\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?: as (\w+))?")
_filling = threading.RLock()


def defer_sdk() -> None:
    """Import the SDK by parts from now on, in this process. Does nothing if it is imported or logs its requests (ANTHROPIC_LOG)."""
    if _SDK not in sys.modules and not os.environ.get("ANTHROPIC_LOG"):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != _SDK:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.submodule_search_locations and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Later(spec.loader)
        return spec


class _Later(Loader):
    """Makes a package without running it."""

    def __init__(self, usual: SourceFileLoader) -> None:
        self._usual = usual

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Only mark the package; a missing name runs it."""
        module.__class__ = _UnrunPackage

    def run(self, module: ModuleType) -> None:
        """Run the package's own code in it."""
        self._usual.exec_module(module)

    @cached_property
    def homes(self) -> dict[str, tuple[str, str]]:
        """Module and original name of each gathered name."""
        source = self._usual.get_source(self._usual.name) or ""
        return {
            alias or name: (module, name)
            for module, several, one in _IMPORT.findall(source)
            for name, alias in _NAME.findall(several or one)
        }


class _UnrunPackage(ModuleType):
    """A package that has not run."""

    def __getattr__(self, name: str) -> Any:
        later = self.__spec__ and self.__spec__.loader
        assert isinstance(later, _Later)
        if name in later.homes:
            module, original = later.homes[name]
            found = getattr(import_module(module, self.__name__), original)
            setattr(self, name, found)
            return found
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if PathFinder.find_spec(f"{self.__name__}.{name}", self.__path__) is not None:
            return import_module(f"{self.__name__}.{name}")
        with _filling:
            if self.__class__ is _UnrunPackage and not vars(self).get("__running"):
                vars(self)["__running"] = True
                later.run(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return object.__getattribute__(self, name)
