"""Send an agent's only request in a batch, and park the agent until the reply arrives."""

from __future__ import annotations

import json
from collections.abc import Callable

from swarm.agent.compaction import Compact
from swarm.agent.decision import Action, CallModel
from swarm.agent.entries import Finished
from swarm.agent.journaled import Condition
from swarm.capabilities.batching.batches import Batches
from swarm.core.errors import AgentCancelled, ConfigurationError, ModelError, NotOwner
from swarm.models import ModelRequest
from swarm.models.batches import PRICE_SHARE, batch_body, read_result
from swarm.models.catalogue import describe_aliases, max_output
from swarm.models.profiles import profile_of
from swarm.runtime.model_call import Reserved, awaited
from swarm.runtime.steps import Step, Turn


class BatchStep(Step):
    """The only request of an agent that is not urgent."""

    takes = (CallModel,)

    def due(self, action: Action) -> Callable[[], Turn] | None:
        """End an agent that would need a second request."""
        history = self.segment.history
        if history.final_answer is not None:
            reason = (
                f"its limit of {history.final_answer.limit} was reached before the batch with its request had ended"
            )
        elif history.turns:
            reason = "--batch allows one request, and the answer needs another one; omit --batch"
        else:
            return None
        return lambda: Finished(state="failed", text=history.reply_text.text_at_hand(), reason=reason)

    def before_request(self, action: CallModel | Compact) -> Turn | bool:
        """Journal the reply or the failure, if known by now; else wait for it. Raises `UnfitWorker`."""
        assert isinstance(action, CallModel)
        model_call = self.parts.model_call
        reserved = model_call.reserve()
        if not isinstance(reserved, Reserved):
            return awaited(reserved) or True
        segment = self.segment
        spec, history, prices = segment.spec, segment.history, segment.settings.prices_file
        if spec.base_url is None and segment.settings.provider != "anthropic":
            return self._lacks_batches(f"provider {segment.settings.provider}")
        profile = profile_of(segment.settings, spec.base_url)
        if profile is not None and not profile.batches:
            return self._lacks_batches(f"{profile.title} at {spec.base_url or segment.settings.base_url}")
        request = ModelRequest(
            model=spec.model,
            system=history.system,
            messages=history.messages,
            max_tokens=model_call.room(reserved),
            tools_allowed=action.tools_allowed,
            effort=spec.definition.effort,
            facts=model_call.facts.of(spec.model),
        )
        # The id stays while the request does: a failed one is sent again under another id.
        name = f"{spec.agent_id}-{history.failures}"
        body = batch_body(request, max_output=max_output(spec.model, prices_file=prices))
        answer = Batches(segment.store.keyspace).ask(
            segment.claim, name, spec.base_url or "", json.dumps(body, ensure_ascii=False)
        )
        match answer:
            case "asked":
                return Condition(batch=name)
            case "cancelled":
                raise AgentCancelled(spec.agent_id)
            case str():
                raise NotOwner(spec.agent_id, segment.claim.generation)
        try:
            reply = read_result(answer, model=spec.model, aliases=describe_aliases(prices))
        except ModelError as error:
            model_call.note_failure(error)  # type: ignore[arg-type]
            return True
        model_call.keep(reply, seconds=0.0, price_share=PRICE_SHARE)
        return True

    def _lacks_batches(self, server: str) -> bool:
        self.parts.model_call.note_failure(ConfigurationError(f"{server} has no batches (--batch)"))
        return True
