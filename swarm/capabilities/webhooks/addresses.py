"""Addresses for notices of jobs: a worker's, by name, and one that a job brings."""

from __future__ import annotations

from swarm.capabilities.webhooks.notices import OWN, Address
from swarm.core.errors import ConfigurationError, ToolError
from swarm.core.settings import Settings
from swarm.runtime.additions import OrderPart


def names_of(settings: Settings) -> list[str]:
    """The addresses that a worker with these settings delivers to."""
    return [*settings.webhooks, *([OWN] if settings.job_webhooks != "off" else [])]


class WebhookOfOrder(OrderPart):
    """The address that a job brings."""

    def read_address(self, url: str) -> str:
        """The address with the submitter's secret, as JSON. Raises `ConfigurationError`."""
        return read_address(url, self.place.settings).model_dump_json()


def read_address(url: str, settings: Settings) -> Address:
    """Read a job's address, with the submitter's secret. Raises `ConfigurationError`."""
    from swarm.tools.web.page import parse  # only jobs with a webhook need an HTTP client

    try:
        parsed = parse(url)
    except ToolError as error:
        raise ConfigurationError(f"the webhook cannot be used: {error}") from None
    if not (settings.webhook_secret or "").strip():
        raise ConfigurationError(
            "a webhook is signed, so that its receiver knows who calls: set SWARM_WEBHOOK_SECRET (echo whsec_$(openssl rand -base64 24))"
        )
    return Address(url=str(parsed), secret=settings.webhook_secret or "")
