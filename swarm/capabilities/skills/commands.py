"""`/name arguments` at the beginning of a prompt: expand the command or skill into the prompt of a job.

A command is expanded once, at submission: arguments, files (`@path`), and the output of its commands (`` !`command` ``). These run in a
read-only sandbox without network, under the workspace's rules, or not at all. Inserted text, arguments and output, is not searched for
commands again.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swarm.capabilities.skills.messages import RUN, Arguments, wrap_skill
from swarm.capabilities.skills.model import Package, Skill, Skills
from swarm.capabilities.skills.places import load_skills
from swarm.capabilities.skills.skill_tool import offer_skills
from swarm.core.elements import wrap_file
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.fields import read_model
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import Plugin
from swarm.definitions.plugins.words import FOLDERS
from swarm.definitions.sources import Unusable, read_text, resolve
from swarm.definitions.tools import SHELL, ToolRow
from swarm.permissions.judge import JudgedCall, judge, may_read
from swarm.permissions.rules import Rules
from swarm.permissions.sandbox import (
    Backend,
    CannotConfine,
    SandboxPolicy,
    choose_backend,
    confine_argv,
    toolchain_folders,
)
from swarm.runtime.additions import ExpandedPrompt, OrderPart, OrderPlace, PromptCommand
from swarm.runtime.plugins import place_plugins
from swarm.runtime.steps import Offer
from swarm.tools.environment import clean_environment

RUN_SECONDS = 60.0
MAX_OUTPUT_CHARACTERS = 30_000
MAX_FILE_CHARACTERS = 60_000
MAX_FILES = 20
_CALL = re.compile(r"/([A-Za-z0-9_.:-]+)(?:\s+(.*))?", re.DOTALL)
_FILE = re.compile(r"(?<![\w`@/])@([\w./~+-]*[\w/])")


@dataclass(frozen=True)
class SkillCall:
    """A command that a person calls, with its arguments."""

    skill: Skill
    package: Package
    given: str


@dataclass(frozen=True)
class CommandPlace:
    """Where a command is expanded, with that place's rules."""

    workspace: Path
    rules: Rules
    settings: Settings
    plugins: Sequence[Plugin] = ()
    """The plugins whose folders its commands can name."""


class SkillsOfOrder(OrderPart):
    """The skills and commands of one order."""

    def __init__(self, place: OrderPlace) -> None:
        super().__init__(place)
        self.skills = found = load_skills(place.folder, place.home, trusted=place.trusted)
        self.grants, self.problems, self.packages = found.grants, found.problems, found.packages

    def expand(self, prompt: str, agent: str | None, rules: Rules) -> ExpandedPrompt | None:
        """The job of a prompt that calls a command."""
        place = self.place
        plugins = load_plugins(place.folder, place.home).counting(trusted=place.trusted)
        commands = CommandPlace(place.folder, rules, place.settings, plugins)
        return call_command(prompt, agent, self.skills, place.catalogue, commands)

    def commands(self) -> Sequence[PromptCommand]:
        return [PromptCommand(one.name, one.description, one.hint) for one in self.skills.skills if one.by_person]

    def names_of(self, row: ToolRow, given: dict[str, Any]) -> Sequence[str]:
        return self.skills.names_of(row, given)

    def document(self) -> Skills | None:
        """The skills, if there are any."""
        return self.skills if self.skills.skills else None

    def offer(self) -> Offer | None:
        """A line about each skill."""
        return offer_skills(self.skills)


def call_command(
    prompt: str, agent: str | None, skills: Skills, catalogue: Catalogue, place: CommandPlace
) -> ExpandedPrompt | None:
    """Expand a prompt that calls a command or a workflow; None for any other prompt.

    Returns the new prompt, and the command's type and model. `agent` is the chosen type, if any. Raises `ConfigurationError`.
    """
    if (called := _find_workflow(prompt, agent, skills, catalogue)) is not None:
        return called
    call = find_invocation(prompt, skills)
    if call is None:
        return None
    skill, starts = call.skill, catalogue.definitions.get(call.skill.agent)
    if agent is None and starts is not None and starts.mode != "subagent":
        agent, skill = starts.name, skill.model_copy(update={"agent": "", "apart": False})
    model = read_model(skill.model, []) if skill.model else None
    return ExpandedPrompt(expand(replace(call, skill=skill), place), agent, None if model == "inherit" else model)


def _find_workflow(prompt: str, agent: str | None, skills: Skills, catalogue: Catalogue) -> ExpandedPrompt | None:
    """Find the workflow that a prompt calls, unless a command has its name. Raises `ConfigurationError`."""
    match = _CALL.fullmatch(prompt.rstrip())
    definition = catalogue.definitions.get(match[1]) if match and skills.find(match[1]) is None else None
    if match is None or definition is None or definition.workflow is None:
        return None
    if agent not in (None, definition.name):
        raise ConfigurationError(
            f"/{match[1]} is a workflow, a type of its own; leave {agent} out, or begin with a space"
        )
    return ExpandedPrompt((match[2] or "").strip() or "{}", definition.name, None)


def find_invocation(prompt: str, skills: Skills) -> SkillCall | None:
    """Find the command that a prompt calls; None without a leading slash. Raises `ConfigurationError` for an unknown one."""
    match = _CALL.fullmatch(prompt.rstrip())
    if match is None:
        return None
    name, given = match[1], (match[2] or "").strip()
    skill = skills.find(name)
    if skill is None:
        near = skills.near(name, [one for one in skills.skills if one.by_person])
        hint = f"; did you mean {' or '.join(f'/{one}' for one in near[:3])}?" if near else ""
        raise ConfigurationError(
            f"there is no command /{name} here{hint} (`swarm skills` lists them; begin a plain prompt with a space)"
        )
    if not skill.by_person:
        raise ConfigurationError(f"{skill.name} is for agents to load, not for people to call ({skill.source})")
    return SkillCall(skill, Package.model_validate_json(skills.packages[skill.digest]), given)


def expand(call: SkillCall, place: CommandPlace) -> str:
    """Expand a call into its prompt. Raises `ConfigurationError` if a command in it cannot run."""
    skill, body = call.skill, call.package.body
    arguments = Arguments(skill, call.given)
    parts, files, last = [], "", 0
    for match in [*RUN.finditer(body), None]:
        text = arguments.fill_in(body[last : match.start() if match else len(body)])
        files += f"{text}\n"
        parts.append(text)
        if match is not None:
            parts.append(_run(arguments.fill_in(match[1] or match[2], shell=True), skill, place))
            last = match.end()
    told = "".join(parts) + arguments.rest()
    if skill.kind == "skill":
        told = wrap_skill(skill, call.package, told)
    if skill.apart or skill.agent:
        kind = f" of the type {skill.agent}" if skill.agent else ""
        told += f"\n\nHave an agent of its own{kind} do this, if you can start one."
    return "\n\n".join([told, *_include(files + arguments.rest(), place)])


def _run(command: str, skill: Skill, place: CommandPlace) -> str:
    backend = choose_backend(place.settings.sandbox)
    wants = f"/{skill.name} runs `{command[:80]}` before it begins"
    if not isinstance(backend, Backend):
        raise ConfigurationError(f"{wants}, which needs a sandbox, and this host has none: {backend.reason}")
    call = JudgedCall(
        tool=SHELL,
        given={"command": command},
        rules=place.rules,
        mode="acceptEdits",
        workspace=place.workspace,
        sandboxed=True,
        read_only_sandbox=True,
    )
    if (verdict := judge(call)).action != "allow":
        raise ConfigurationError(f"{wants}, which is not allowed: {verdict.reason}")
    folders = place_plugins(place.plugins, place.settings) if FOLDERS in command else []
    with tempfile.TemporaryDirectory(prefix="swarm-command-") as scratch:
        policy = SandboxPolicy(
            workspace=place.workspace,
            scratch=Path(scratch).resolve(),
            read_only=True,
            readable=(*toolchain_folders(os.environ, Path.home()), *folders),
            hidden=(place.settings.state_folder(),),
        )
        try:
            argv = confine_argv(policy, backend, ["bash", "-c", command])
            return _await(argv, place.workspace, wants, {FOLDERS: str(folders[0].parent)} if folders else {})
        except CannotConfine as error:
            raise ConfigurationError(f"{wants}: {error}") from error


def _await(argv: list[str], folder: Path, wants: str, variables: dict[str, str]) -> str:
    """Return the command's output, with its failure if any. Raises `ConfigurationError` if it takes too long."""
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=clean_environment(os.environ) | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"{wants}, which takes longer than {RUN_SECONDS:g} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    text = output.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip("\n")
    if len(text) > MAX_OUTPUT_CHARACTERS:
        text = f"{text[:MAX_OUTPUT_CHARACTERS]}\n[… {len(text) - MAX_OUTPUT_CHARACTERS:,} characters left out]"
    return f"{text}\n[exit code {process.returncode}]" if process.returncode else text


def _include(text: str, place: CommandPlace) -> list[str]:
    """Return the readable workspace files that a text names as `@path`; other names stay as text."""
    included = []
    for name in list(dict.fromkeys(match.rstrip(".") for match in _FILE.findall(text)))[:MAX_FILES]:
        path = resolve(place.workspace / Path(name))
        root = resolve(place.workspace)
        if not path.is_relative_to(root) or not path.is_file() or not may_read(path, place.rules, root):
            continue
        try:
            content = read_text(path)
        except Unusable:
            continue  # for example an image: the agent can open it by its name
        shown = content[:MAX_FILE_CHARACTERS]
        if len(content) > len(shown):
            shown += f"\n[… {len(content) - len(shown):,} characters left out; read the file]"
        included.append(wrap_file(name, shown))
    return included
