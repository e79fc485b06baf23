"""Enter a sandbox and become a command, as a separate program: `python -I -S enter.py WORD… -- COMMAND…`.

Each word is `name=value`, made by a backend from a policy. The supervisor of shell commands (`swarm.tools.launcher`)
runs this module in its own child, which saves a second start of Python. The module therefore imports next to nothing
and calls the kernel by number: bindings on PyPI are not available with `-S`. The
words `outer`, `look`, `own`, `had` and `stub` are for a supervisor and have no effect here.

Guarantee: it carries out all words or ends with status 126; there is no partial sandbox.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

CANNOT_ENTER = 126
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 22, 28, 38, 47
_SECUREBITS = 0b1110_1111  # root never gets capabilities from its user id; KEEP_CAPS stays off
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_NPROC = 6
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
_ALL_RIGHTS = (1 << 16) - 1
_DEVICE_NODES = 1 << 6 | 1 << 11
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


class CannotEnter(Exception):
    """A step of entering the sandbox failed."""


def enter(words: list[str]) -> None:
    """Apply the words to this process, which must become the command next."""
    given = _parse(words)
    for name in given.get("unset", []):
        os.environ.pop(name, None)
    for value in given.get("set", []):
        name, _, text = value.partition("=")
        os.environ[name] = text
    _offer_to_the_oom_killer()
    for value in given.get("limit", []):
        kind, _, number = value.partition(":")
        _set_limit(int(kind), int(number))
    for value in given.get("processes", []):
        # Counted for the whole user, so the policy's number is added to the current count.
        _set_limit(_NPROC, _count_tasks() + int(value))
    if "drop" in given:
        _drop_capabilities()
    if "landlock" in given or "scope" in given:
        _restrict(given)
    code = bytes.fromhex(given.get("filter", [""])[0])
    if "pass" in given:
        _pass_filter(code, int(given["pass"][0]))
    elif code:
        _install_filter(code)


def restrict(words: list[str]) -> None:
    """Apply only the Landlock words, to this thread."""
    _restrict(_parse(words))


def become(argv: list[str]) -> None:
    """Run the command in place of this program."""
    for number in (13, 25):  # Python ignores SIGPIPE and SIGXFSZ, and exec keeps ignored signals ignored
        _libc.signal(number, None)
    os.execvp(argv[0], argv)


def main(arguments: list[str]) -> None:
    """Enter the sandbox and become the command; on failure report the reason and end."""
    at = arguments.index("--")
    words, argv = arguments[:at], arguments[at + 1 :]
    code = CANNOT_ENTER
    try:
        enter(words)
        become(argv)
    except CannotEnter as error:
        message = f"cannot enter the sandbox: {error}\n"
    except OSError as error:
        code, message = 127, f"cannot start {argv[0]}: {error.strerror}\n"
    os.write(2, message.encode())
    os._exit(code)


def _parse(words: list[str]) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for word in words:
        name, _, value = word.partition("=")
        given.setdefault(name, []).append(value)
    return given


def _call(what: str, result: int) -> int:
    if result < 0:
        raise CannotEnter(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _offer_to_the_oom_killer() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # no promise depends on it: without memory, an agent's process only dies before a worker


def _set_limit(kind: int, value: int) -> None:
    soft, hard = (ctypes.c_ulong * 2)(), (ctypes.c_ulong * 2)(value, value)
    _call(f"getrlimit({kind})", _libc.getrlimit(kind, soft))
    hard[:] = [min(value, soft[1])] * 2  # never above this process's own limit
    _call(f"setrlimit({kind})", _libc.setrlimit(kind, hard))


def _count_tasks() -> int:
    count, user = 0, os.getuid()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def _drop_capabilities() -> None:
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # the first unknown to this kernel, or the first one for a user without capabilities
    _libc.prctl(_PR_SET_SECUREBITS, _SECUREBITS, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)
    header, none = struct.pack("<Ii", 0x2008_0522, 0), bytes(24)
    _call("capset", _libc.syscall(_SYS_CAPSET[os.uname().machine], header, none))
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        held = [line.split()[1] for line in file if line.startswith(("CapPrm", "CapEff", "CapAmb"))]
    if any(int(mask, 16) for mask in held):
        raise CannotEnter("capabilities remain")


def _restrict(given: dict[str, list[str]]) -> None:
    _call("prctl(no_new_privs)", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    abi = int(given.get("landlock", ["0"])[0])
    files = _ALL_RIGHTS if abi else 0
    for oldest, right in ((5, _IOCTL_DEV), (3, _TRUNCATE), (2, _REFER)):
        files &= ~right if abi < oldest else _ALL_RIGHTS
    scope = _ABSTRACT_SOCKETS | _SIGNALS if "scope" in given else 0
    fields = struct.pack("<QQQ", files, 0, scope)
    ruleset = _call("Landlock", _libc.syscall(_CREATE_RULESET, fields, len(fields) if scope else 8, 0))
    reading = _EXECUTE | _READ_FILE | _READ_DIR
    for path in given.get("read", []):
        _allow(ruleset, path, files & reading)
    for path in given.get("write", []):
        _allow(ruleset, path, files & ~_DEVICE_NODES)
    for path in given.get("device", []):
        _allow(ruleset, path, files & (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV))
    _call("Landlock", _libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # the path is missing, so the command loses nothing
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
    rule = struct.pack("<Qi", rights, descriptor)
    _call(f"Landlock: {path}", _libc.syscall(_ADD_RULE, ruleset, 1, rule, 0))
    os.close(descriptor)


def _pass_filter(code: bytes, number: int) -> None:
    """Pass the filter in a descriptor to a program that installs it itself."""
    descriptor = os.memfd_create("filter")
    os.write(descriptor, code)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, number)
    os.set_inheritable(number, True)  # `dup2` does nothing if the numbers are equal


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _install_filter(code: bytes) -> None:
    _call("prctl(no_new_privs)", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    program = _Filter(len(code) // 8, code)
    _call("seccomp", _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0))


if __name__ == "__main__":
    main(sys.argv[1:])
