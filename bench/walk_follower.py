"""A `sitecustomize` that notes in which of the project's files functions run, from a delivery to the next request of the model.

What runs while a module is imported does not count.
"""

import json
import os
import sys
import threading
from types import FrameType

_file = os.environ.get("WALKS_FILE", "")
_is_own = ("/swarm/", "/tasks/", "/mailbox/")
_of_project: dict[str, str] = {}
_state = threading.local()


def _name(path: str) -> str:
    """The file's path from the project's folder on; empty for others' files."""
    known = _of_project.get(path)
    if known is None:
        root = os.path.dirname(os.path.dirname(getattr(sys.modules.get("swarm"), "__file__", "") or "/none/none"))
        real = os.path.realpath(path)
        inside = real.startswith(root + os.sep) and any(part in real[len(root) :] for part in _is_own)
        known = _of_project[path] = real[len(root) + 1 :] if inside else ""
    return known


def _follow(frame: FrameType, event: str, argument: object) -> None:
    code = frame.f_code
    if event == "call" and code.co_name == "run_agent" and code.co_filename.endswith("agent_task.py"):
        _state.files, _state.importing = {}, 0
    files = getattr(_state, "files", None)
    if files is None:
        return
    if code.co_name == "<module>":
        _state.importing += {"call": 1, "return": -1}.get(event, 0)
    # Bodies of classes are no functions.
    elif event == "call" and not _state.importing and code.co_flags & 2 and (name := _name(code.co_filename)):
        files[name] = files.get(name, 0) + 1
        if code.co_name == "complete" and name.startswith("swarm/models/"):
            _state.files = None
            with open(_file, "a") as file:
                file.write(json.dumps({"generation": _generation(frame), "files": files}) + "\n")


def _generation(frame: FrameType | None) -> int:
    while frame is not None:
        if (claim := frame.f_locals.get("claim")) is not None and hasattr(claim, "generation"):
            return int(claim.generation)
        frame = frame.f_back
    return 0


if _file:
    sys.setprofile(_follow)
    threading.setprofile(_follow)
    os.register_at_fork(after_in_child=lambda: sys.setprofile(_follow))
