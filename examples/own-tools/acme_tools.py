"""Tools for the agents of a shop."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from swarm import ToolContext, ToolError, tool


class Receipt(BaseModel):
    account: str
    cents: int
    number: str


@tool(effects="idempotent", network=True, subject="account", timeout=30)
def charge_card(
    account: str,
    cents: Annotated[int, Field(gt=0, le=100_000)],
    context: ToolContext,
) -> Receipt:
    """Charge a customer's card, and return the receipt.

    Args:
        account: The customer's account, for example acme-7.
    """
    if account.startswith("closed-"):
        raise ToolError(f"the account {account} is closed; ask the customer for another one")
    key = context.idempotency_key
    # The bank, here a table: a key that it has seen already is not charged again.
    with closing(sqlite3.connect(os.environ["ACME_LEDGER"], timeout=30)) as ledger, ledger:
        ledger.execute("CREATE TABLE IF NOT EXISTS charges (key TEXT PRIMARY KEY, account TEXT, cents INTEGER)")
        ledger.execute("INSERT OR IGNORE INTO charges VALUES (?, ?, ?)", (key, account, cents))
    return Receipt(account=account, cents=cents, number=key[-8:])


@tool(effects="none", sandboxed=True, timeout=20)
def count_words(path: str, context: ToolContext) -> dict[str, int]:
    """Count the words of a file of the workspace, by word."""
    counts: dict[str, int] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        for word in line.lower().split():
            counts[word] = counts.get(word, 0) + 1
    context.progress(f"{len(counts)} different words")
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:100])
