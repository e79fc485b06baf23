"""Tools from outside the package that are functions: of a shop that must charge each customer once."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from swarm import ToolContext, ToolError, tool


class Receipt(BaseModel):
    """What a customer gets."""

    account: str
    cents: int
    key: str


def open_ledger() -> sqlite3.Connection:
    """The bank's book: a key is written once."""
    ledger = sqlite3.connect(os.environ.get("SHOP_LEDGER", "ledger.db"), timeout=60, isolation_level=None)
    ledger.execute(
        "CREATE TABLE IF NOT EXISTS charges (key TEXT PRIMARY KEY, account TEXT, cents INTEGER, tries INTEGER)"
    )
    return ledger


@tool(effects="idempotent", network=True, subject="account", timeout=30)
def charge_card(account: str, cents: Annotated[int, Field(gt=0)], context: ToolContext, slow_ms: int = 0) -> Receipt:
    """Charge a customer's card.

    Args:
        account: Whose card it is.
        slow_ms: How long the bank takes before it writes, and again until it answers.
    """
    if account.startswith("closed"):
        raise ToolError(f"the account {account} is closed")
    with closing(open_ledger()) as ledger:
        time.sleep(slow_ms / 1000)
        ledger.execute(
            "INSERT INTO charges VALUES (?, ?, ?, 1) ON CONFLICT (key) DO UPDATE SET tries = tries + 1",
            (context.idempotency_key, account, cents),
        )
        time.sleep(slow_ms / 1000)
    return Receipt(account=account, cents=cents, key=context.idempotency_key)


@tool(effects="none")
async def stock(sku: str, context: ToolContext) -> dict[str, object]:
    """Tell how many of an article there are."""
    context.progress(f"counting {sku}")
    await asyncio.sleep(0)
    return {"sku": sku, "count": len(sku), "depth": context.depth}


@tool(effects="once", timeout=0.3)
def hang(way: str, context: ToolContext) -> str:
    """Take too long, in one way or another."""
    if way == "loop":
        while True:
            pass
    if way == "look":
        while not context.cancelled():
            time.sleep(0.01)
        return "I saw it"
    context.sleep(60)
    return "slept"


@tool(effects="once")
def linger(way: str, context: ToolContext) -> str:
    """Take very long."""
    context.progress("lingering")
    if way == "blind":
        while True:
            pass
    context.sleep(600)
    return "never"


@tool(sandboxed=True, effects="none", timeout=20)
def look_around(write: str, context: ToolContext) -> dict[str, object]:
    """Tell what a process in the sandbox sees."""
    print("this is no result")
    context.progress("looking")
    try:
        Path(write).write_text("x")
        written = True
    except OSError:
        written = False
    return {
        "written": written,
        "secrets": [name for name in os.environ if "LEDGER" in name or "REDIS" in name],
        "same_folder": Path.cwd() == context.workspace,
    }


@tool(sandboxed=True, timeout=5)
def wait_in_sandbox(write: str) -> str:
    """Write a file, and then never end."""
    Path(write).write_text("x")
    time.sleep(600)
    return "never"
