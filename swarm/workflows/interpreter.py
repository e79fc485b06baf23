"""QuickJS alone in a process: runs a script until it waits, and passes its calls on. Started by `javascript.py`.

It imports nothing of the project, and little of Python, because each wake of a workflow starts it. Before the script is read it can open
no file and no socket, start no process, and use only so much memory and time, so that a script that breaks the interpreter has nothing.
A message is a line with its size and a mark, then its bytes.
"""

from __future__ import annotations

import resource
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEMORY_BYTES = 64 << 20
STACK_BYTES = 512 << 10
TURN_SECONDS = 2.0
"""Most time of one turn, from a result to the next wait, in seconds of the processor; the first argument can be another one."""
MOST_TOLD = 16 << 20
"""Most bytes that a turn passes out."""
TOLD, FAILED = "told", "failed"
_ADDRESSES_BYTES = 1 << 30
_NONE_OF = (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)


def main() -> None:
    """Serve one script until the pipe ends: the globals, the script, then results."""
    seconds = float(sys.argv[1])
    # Without the site's start-up files, which cost more than all else, the interpreter's folder is not on the path.
    sys.path.append(sys.argv[2])
    import _quickjs  # type: ignore[import-not-found]

    _confine()
    context = _quickjs.Context()
    context.set_memory_limit(MEMORY_BYTES)
    context.set_max_stack_size(STACK_BYTES)
    context.set_time_limit(seconds)
    context.eval(_read())
    take, settle = context.get("$take"), context.get("$settle")
    act = context.eval
    while text := _read():
        _write(*_run(context, act, text, take, seconds))
        act = settle


def _confine() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    for what in _NONE_OF:
        resource.setrlimit(what, (0, 0))
    if sys.platform == "linux":  # elsewhere a process can have reserved more addresses when it starts
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES_BYTES, _ADDRESSES_BYTES))


def _run(context: Any, act: Any, text: str, take: Any, seconds: float) -> tuple[str, str]:
    """Act, and run until it waits. The script can change all that the runtime's own script uses."""
    # The engine's own limit is for one job, and jobs can follow each other for ever; the kernel's holds within a job, too.
    end = time.process_time() + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (int(end) + 1, resource.RLIM_INFINITY))
    try:
        act(text)
        while context.execute_pending_job():
            if time.process_time() > end:
                return FAILED, f"the script ran for {seconds:g} s without waiting for anything"
        told = take()
    except Exception as error:
        known = type(error).__module__ == "_quickjs"
        return FAILED, str(error) if known else f"{type(error).__name__}: {error}"
    if not isinstance(told, str):
        return FAILED, "TypeError: the script has changed the runtime's own functions"
    return (TOLD, told) if len(told) <= MOST_TOLD else (FAILED, "the script passes too much at once")


def _read() -> str:
    size = sys.stdin.buffer.readline()
    return sys.stdin.buffer.read(int(size or 0)).decode("utf-8", "surrogatepass")


def _write(mark: str, text: str) -> None:
    told = text.encode("utf-8", "surrogatepass")
    sys.stdout.buffer.write(f"{len(told)} {mark}\n".encode() + told)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
