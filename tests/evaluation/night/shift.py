"""The log of a night shift, page by page: `python3 shift.py 1`. Between its lines of routine stands what must not be forgotten."""

import sys

PAGES = [
    "the copier listens on port 7443; 7433 is wrong, the firewall drops it\n"
    "Ines (on call): nobody writes to /srv/ledger before the audit on 14 March",
    "shard 7 failed: EPIPE while flushing segment 0x1f3a; the second try ended in the same way\n"
    "decided: copier v2 instead of rsync, which loses the holes of sparse files",
    "shard 3 is copied and checked: its checksum is b41f9c\n"
    "the limit of open files is raised to 9216 in limits.toml:27",
    "shard 9 is not begun: it waits for the disk of order PO-88213\n"
    "Tomasz looks for the cause on host quince, and reports by 06:40",
    "shard 5 is copied, and not yet checked\nnext: run verify --shard 5, then begin shard 9",
    "the shift ends; nothing more is to be noted",
]


def tell(page: int) -> str:
    """Return a page of the log."""
    noted = PAGES[page - 1].split("\n")
    lines = [
        f"{page:02}:{minute % 60:02} shard {1 + minute % 11} block {page * 4096 + minute * 17}: copied, {minute % 7} waiting"
        for minute in range(220)
    ]
    for number, text in enumerate(noted):
        lines.insert(61 + 80 * number, f"{page:02}:{(61 + 80 * number) % 60:02} {text}")
    ends = f"next page: python3 shift.py {page + 1}" if page < len(PAGES) else "this was the last page"
    return "\n".join([*lines, ends])


if __name__ == "__main__":
    print(tell(int(sys.argv[1])))
