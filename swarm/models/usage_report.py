"""A provider's own count of tokens by day and model: from a file, or from the Usage and Cost Admin API of Anthropic.

Files are that API's answers (JSON), or the usage export of the Console (CSV).
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import httpx2

from swarm.core.errors import ConfigurationError
from swarm.core.usage import Usage

Report = dict[date, dict[str, Usage]]
"""Tokens by day, in UTC, and model."""
ADMIN_KEY = "ANTHROPIC_ADMIN_API_KEY"
_PLACE = "/v1/organizations/usage_report/messages"
_MOST_DAYS = 31
"""Most days in one answer of the API."""
_COLUMNS = {
    "day": ("usage_date_utc", "date", "starting_at"),
    "model": ("model_version", "model"),
    "input_tokens": ("usage_input_tokens_no_cache", "uncached_input_tokens"),
    "output_tokens": ("usage_output_tokens", "output_tokens"),
    "cache_read_input_tokens": ("usage_input_tokens_cache_read", "cache_read_input_tokens"),
}
_WRITES = (
    *("usage_input_tokens_cache_write_5m", "usage_input_tokens_cache_write_1h"),
    *("cache_creation.ephemeral_5m_input_tokens", "cache_creation.ephemeral_1h_input_tokens"),
)


def read_report(path: Path) -> Report:
    """Read a usage report from a JSON or CSV file. Raises `ConfigurationError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the usage report {path} cannot be read: {error}") from None
    try:
        if text.lstrip().startswith(("{", "[")):
            answers = json.loads(text)
            return _sum(
                row for answer in (answers if isinstance(answers, list) else [answers]) for row in _rows(answer)
            )
        return _sum(_read_lines(text))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{path} is not a usage report of Anthropic's Admin API (JSON) or Console (CSV): {error}"
        ) from None


def fetch_report(base_url: str, key: str, first: date, last: date) -> Report:
    """Ask the Admin API for the use of these days. Raises `ConfigurationError`."""
    rows: list[tuple[date, str, Usage]] = []
    asked: dict[str, Any] = {
        "starting_at": _at(first),
        "ending_at": _at(last + timedelta(days=1)),
        "bucket_width": "1d",
        "group_by[]": "model",
        "limit": _MOST_DAYS,
    }
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    try:
        with httpx2.Client(base_url=base_url, headers=headers, timeout=60.0) as client:
            while True:
                answer = client.get(_PLACE, params=asked)
                if answer.is_error:
                    told = " ".join(answer.text.split())[:300]
                    raise ConfigurationError(
                        f"the Admin API refuses the usage report ({answer.status_code}): {told}. Check {ADMIN_KEY}"
                    )
                page = answer.json()
                rows += _rows(page)
                if not page.get("has_more"):
                    return _sum(rows)
                asked["page"] = page["next_page"]
    except (httpx2.HTTPError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"no usage report from {base_url}: {error!r}") from None


def _at(day: date) -> str:
    return datetime.combine(day, time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rows(answer: Mapping[str, Any]) -> Iterable[tuple[date, str, Usage]]:
    for bucket in answer["data"]:
        day = date.fromisoformat(bucket["starting_at"][:10])
        for row in bucket["results"]:
            usage = Usage(
                input_tokens=row["uncached_input_tokens"],
                output_tokens=row["output_tokens"],
                cache_read_input_tokens=row["cache_read_input_tokens"],
                cache_creation_input_tokens=sum((row.get("cache_creation") or {}).values()),
            )
            yield day, row["model"] or "unknown", usage


def _read_lines(text: str) -> Iterable[tuple[date, str, Usage]]:
    lines = csv.DictReader(io.StringIO(text))
    for names in _COLUMNS.values():
        if not set(names).intersection(lines.fieldnames or ()):
            raise ValueError(f"no column {' or '.join(names)}")
    yield from map(_read_line, lines)


def _read_line(line: Mapping[str, str]) -> tuple[date, str, Usage]:
    found = {name: next(line[each] for each in names if each in line) for name, names in _COLUMNS.items()}
    written = sum(int(line[name] or 0) for name in _WRITES if name in line)
    day, model = date.fromisoformat(found.pop("day")[:10]), found.pop("model")
    return (
        day,
        model,
        Usage(cache_creation_input_tokens=written, **{name: int(value or 0) for name, value in found.items()}),
    )


def _sum(rows: Iterable[tuple[date, str, Usage]]) -> Report:
    found: defaultdict[date, defaultdict[str, Usage]] = defaultdict(lambda: defaultdict(Usage))
    for day, model, usage in rows:
        found[day][model] += usage
    return {day: dict(models) for day, models in sorted(found.items())}
