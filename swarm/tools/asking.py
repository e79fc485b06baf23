"""The tools that ask a person: for a decision, or to approve a plan. The runtime carries them out, because the agent parks meanwhile."""

from __future__ import annotations

from swarm.tools import Tool, runtime_only

ASK_TOOL, PLAN_TOOL = "AskUserQuestion", "ExitPlanMode"


ASK_USER = Tool(
    name=ASK_TOOL,
    description=(
        "Ask the person whose job this is, when only they can decide and a wrong guess would be dear. It may take long, and "
        "nobody may answer: then go on with your best judgement and say so."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "One clear question, with what is needed to answer it."},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Answers to choose from, if there are some.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    run=runtime_only,
    effects=False,
    activity=lambda given: f"asking: {given.get('question', '')}",
)

EXIT_PLAN_MODE = Tool(
    name=PLAN_TOOL,
    description=(
        "Hand in your plan when it is complete. If it is approved you leave plan mode and carry it out in this same "
        "conversation; if not, you get the reasons and go on planning."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "plan": {"type": "string", "description": "The whole plan, as Markdown; default: what the plan file holds."}
        },
        "additionalProperties": False,
    },
    run=runtime_only,
    effects=False,
    activity=lambda given: "handing in its plan",
)
