"""The models of all vendors behind one port: a model's name says who is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from swarm.core.errors import ModelError, PermanentModelError
from swarm.core.settings import Settings
from swarm.models import ApplyLimits, Begin, Hear, ModelRequest, Progress, Reply
from swarm.models.anthropic import AnthropicModel
from swarm.models.batches import BatchLane
from swarm.models.codecs import codec
from swarm.models.vendor_model import VendorModel
from swarm.models.vendors import Vendor, limit_class, split_model

if TYPE_CHECKING:
    from httpx2 import Response

    from swarm.models.passage import PassedRequest


class AnyModel:
    """A `Model` that asks Anthropic's provider of the settings, and other vendors for models named `VENDOR:MODEL`."""

    def __init__(self, settings: Settings, *, rehearsal: str | None = None) -> None:
        """`rehearsal` is the address of a job's rehearsal server, which then answers for all vendors.

        Raises `ConfigurationError` if that is not on this host."""
        self._settings, self._rehearsal = settings, rehearsal
        self._messages = (
            AnthropicModel.rehearsing(settings, rehearsal) if rehearsal is not None else AnthropicModel(settings)
        )
        self._others: dict[str, VendorModel] = {}

    @classmethod
    def rehearsing(cls, settings: Settings, base_url: str) -> Self:
        """Make a model for a job's rehearsal server. Raises `ConfigurationError` for an address of another host."""
        return cls(settings, rehearsal=base_url)

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
        on_begin: Begin | None = None,
    ) -> Reply:
        """Make one attempt. Raises the errors of `Model.complete`, and `ConfigurationError`."""
        found = split_model(request.model, self._settings.vendors)
        if found is None:
            return self._messages.complete(request, on_progress, on_words, on_limits, on_begin)
        vendor, name = found
        return self._other(vendor).complete(request, name, on_progress, on_words, on_limits, on_begin)

    def pass_on(self, model: str, request: PassedRequest, room: int | None, headers: dict[str, str]) -> Response:
        """Pass on a request of another program to this model's server, for a reply of at most `room` tokens.

        Returns the response, whatever its status, as it streams. Raises `TransientModelError`, `PermanentModelError` or
        `ConfigurationError` without one.
        """
        found = split_model(model, self._settings.vendors)
        if (found is None) != (request.wire.name == "messages"):
            raise PermanentModelError(
                f"the server of {model} does not speak the format {request.wire.name}", kind="not_found"
            )
        if found is None:
            return self._messages.pass_on(request.encode(model, room), headers)
        vendor, name = found
        if request.wire.name == "gemini" and vendor.wire != "gemini":
            raise PermanentModelError(f"the server of {model} does not speak the format gemini", kind="not_found")
        return self._other(vendor).pass_on(request, name, room)

    def limit_class(self, model: str) -> str:
        """Name the limits by this process's account and the kind of model."""
        found = split_model(model, self._settings.vendors)
        if found is None:
            return self._messages.limit_class(model)
        # The limits of a rehearsal are not those of the account.
        return limit_class(self._other(found[0]).vendor, found[1])

    def summarizes(self, model: str) -> bool:
        """Whether the server takes `ModelRequest.summarize`: of the vendors, Anthropic's alone."""
        return split_model(model, self._settings.vendors) is None and self._messages.summarizes(model)

    def batches(self) -> BatchLane:
        """The batches of Anthropic's provider."""
        return self._messages.batches()

    def explain(self, error: Exception, model: str) -> ModelError | None:
        """Translate a failure of Anthropic's provider before the reply."""
        return self._messages.explain(error, model)

    def close(self) -> None:
        """Close this process's connections. The model stays usable: the next request opens new ones."""
        self._messages.close()
        for other in self._others.values():
            other.close()

    def _other(self, vendor: Vendor) -> VendorModel:
        known = self._others.get(vendor.name)
        if known is None:
            rehearsing = self._rehearsal is not None
            at = vendor
            if self._rehearsal is not None:
                at = vendor._replace(url=self._rehearsal.rstrip("/") + codec(vendor.wire).root)
            known = self._others.setdefault(vendor.name, VendorModel(self._settings, at, rehearsing=rehearsing))
        return known
