"""Builds a sandbox's filter on system calls, as a program for the kernel's packet-filter machine.

The filter forbids operations that neither namespaces nor Landlock cover: sockets outside network namespaces, `io_uring`
(which would bypass the filter), mounting, new user namespaces, the keyring, and creating set-user-id programs. Beside
Landlock it also protects other processes' limits and priorities.

The program is written out here, because `pyseccomp`, the only released binding, needs the host's libseccomp. `enter.py`, which loads
the program, runs without installed packages.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_FOREIGN_ABI = 0x4000_0000  # the x32 calls of x86-64 have this bit

_CALLS: dict[str, tuple[int | None, int | None]] = {
    **{name: (number, number) for name, number in {"io_uring_setup": 425, "io_uring_enter": 426}.items()},
    **{
        name: (number, number)
        for name, number in {"io_uring_register": 427, "open_tree": 428, "move_mount": 429}.items()
    },
    **{
        name: (number, number)
        for name, number in {"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433}.items()
    },
    **{name: (number, number) for name, number in {"clone3": 435, "mount_setattr": 442, "fchmodat2": 452}.items()},
    **{
        name: (number, number)
        for name, number in {"setxattrat": 463, "removexattrat": 466, "file_setattr": 469}.items()
    },
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268)},
    **{
        "unshare": (272, 97),
        "clone": (56, 220),
        "keyctl": (250, 219),
        "add_key": (248, 217),
        "request_key": (249, 218),
    },
    **{"bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273)},
    **{
        "delete_module": (176, 106),
        "reboot": (169, 142),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "acct": (163, 89),
    },
    **{"quotactl": (179, 60), "syslog": (103, 116), "iopl": (172, None), "ioperm": (173, None)},
    **{"settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162), "ioctl": (16, 29), "socket": (41, 198)},
    **{"socketpair": (53, 199), "prlimit64": (302, 261), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195)},
    **{"semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186)},
    **{"msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181)},
    **{"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None), "fchown": (93, 55)},
    **{"lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "utime": (132, None)},
    **{"utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88)},
    **{"open": (2, None), "creat": (85, None), "openat": (257, 56), "openat2": (437, 437), "mknod": (133, None)},
    **{"mknodat": (259, 33), "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118)},
    **{"sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274)},
}
_UNKNOWN = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2")
"""Calls answered as by an old kernel, so that programs use others that the filter can inspect."""
_ADMINISTRATION = (
    *("mount", "umount2", "pivot_root", "chroot", "setns", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount"),
    *("fspick", "mount_setattr", "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"),
    *("open_by_handle_at", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
    *("swapon", "swapoff", "acct", "quotactl", "syslog", "iopl", "ioperm", "settimeofday", "clock_settime"),
    *("clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
)
_SHARED_MEMORY = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl"),
    *("mq_open", "mq_unlink"),
)
_METADATA = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr"),
    *("fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr"),
    *("utime", "utimes", "futimesat"),
)
_NAMESPACES = 0x7E02_0000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_DATAGRAM = 2
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_ID = 0o6000
_MAKES_A_FILE = 0o100 | 0o20000000
"""O_CREAT, and the distinct bit of O_TMPFILE; without them `open` has no mode."""
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
"""Index of the argument with a file's mode."""
_SCHEDULING = ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
_OF_A_USER = {"setpriority": 2, "ioprio_set": 3}
"""Calls with a kind and a number (0: the calling process), and the kind for all processes of a user."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF_0000


def _word(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)


def _refuse(number: int = errno.EPERM) -> bytes:
    return _word(_RETURN, 0x0005_0000 | number)


def _argument(index: int) -> bytes:
    """Load the lower half of an argument, which is enough for flags and numbers."""
    return _word(_LOAD, 16 + 8 * index)


def _refuse_pointer(index: int) -> bytes:
    """Refuse unless the pointer argument is null; both halves count."""
    low, high = _word(_LOAD, 16 + 8 * index), _word(_LOAD, 20 + 8 * index)
    return low + _word(_EQUAL, 0, 0, 2) + high + _word(_EQUAL, 0, 1, 0) + _refuse()


class _Program:
    """Rules in order; the first that applies decides."""

    def __init__(self, column: int, architecture: int) -> None:
        self._column = column
        self._code = [
            _word(_LOAD, 4) + _word(_EQUAL, architecture, 1, 0) + _refuse(),
            _word(_LOAD, 0) + _word(_AT_LEAST, _FOREIGN_ABI, 0, 1) + _refuse(),
        ]

    def refuse(self, names: Iterable[str], number: int = errno.EPERM) -> None:
        for name in names:
            call = _CALLS[name][self._column]
            if call is not None:
                self._code.append(_word(_EQUAL, call, 0, 1) + _refuse(number))

    def refuse_if(self, name: str, rule: bytes) -> None:
        """Run `rule` for the call; if the rule does not return, the call is allowed."""
        call = _CALLS[name][self._column]
        if call is None:
            return
        rule += _word(_RETURN, _ALLOW)
        self._code.append(_word(_EQUAL, call, 0, len(rule) // 8) + rule)

    def finish(self) -> bytes:
        return b"".join(self._code) + _word(_RETURN, _ALLOW)


def _only_families(families: tuple[int, ...]) -> bytes:
    tests = [_word(_EQUAL, family, len(families) - at, 0) for at, family in enumerate(families)]
    return _argument(0) + b"".join(tests) + _refuse(errno.EACCES)


def _refuse_set_id(program: _Program) -> None:
    """Refuse set-user-id files: such a program would run as the worker's user for anyone on the host."""
    for name, index in _MODES.items():
        program.refuse_if(name, _argument(index) + _word(_ANY_BIT, _SET_ID, 0, 1) + _refuse())
    for name, flags in {"open": 1, "openat": 2}.items():
        mode = _argument(flags + 1) + _word(_ANY_BIT, _SET_ID, 0, 1) + _refuse()
        program.refuse_if(name, _argument(flags) + _word(_ANY_BIT, _MAKES_A_FILE, 0, len(mode) // 8) + mode)


@lru_cache(maxsize=16)
def make_filter(
    beside: Literal["namespaces", "landlock"], *, network: bool, read_only: bool, abi: int, unix: bool = True
) -> bytes:
    """Build the filter for use with namespaces or Landlock; empty on an unknown architecture.

    Without `unix` no file socket can be reached, because a listener in the workspace could act on the messages.
    """
    known = _ARCHITECTURES.get(os.uname().machine)
    if known is None:
        return b""
    program = _Program(*known)
    if beside == "landlock" and read_only:
        program.refuse(_METADATA)
    program.refuse(_ADMINISTRATION)
    program.refuse(_UNKNOWN, errno.ENOSYS)
    for name in ("clone", "unshare"):
        program.refuse_if(name, _argument(0) + _word(_ANY_BIT, _NAMESPACES, 0, 1) + _refuse())
    tests = _word(_EQUAL, _TIOCSTI, 1, 0) + _word(_EQUAL, _TIOCLINUX, 0, 1)
    program.refuse_if("ioctl", _argument(1) + tests + _refuse())
    _refuse_set_id(program)
    if beside == "namespaces":
        # A network namespace has its own abstract sockets; in a shared one, Landlock must block them.
        local = (_UNIX,) if unix and (not network or abi >= 6) else ()
        program.refuse_if("socket", _only_families((*local, _INET, _INET6, _NETLINK)))
        return program.finish()
    program.refuse(_SHARED_MEMORY)
    program.refuse_if("socket", _only_families((_INET, _INET6, _NETLINK) if network else ()))
    # A stream pair stays connected to itself; a datagram socket could be redirected to any other.
    kind = _word(_MASK, 0xF) + _word(_EQUAL, _DATAGRAM, 0, 1)
    program.refuse_if("socketpair", _argument(1) + kind + _refuse(errno.EACCES))
    # A CPU limit of zero would act as a signal to another process.
    change = _refuse_pointer(2)
    program.refuse_if("prlimit64", _argument(0) + _word(_EQUAL, 0, len(change) // 8, 0) + change)
    for name in _SCHEDULING:
        program.refuse_if(name, _argument(0) + _word(_EQUAL, 0, 1, 0) + _refuse())
    for name, of_a_user in _OF_A_USER.items():
        other = _argument(1) + _word(_EQUAL, 0, 1, 0) + _refuse()
        program.refuse_if(name, other + _argument(0) + _word(_EQUAL, of_a_user, 0, 1) + _refuse())
    if read_only:
        program.refuse_if("utimensat", _refuse_pointer(1))
    return program.finish()
