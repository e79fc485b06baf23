"""Settings, read from `SWARM_*` variables once, where a process starts. Nothing reads the environment at import."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from swarm.core.errors import ConfigurationError
from swarm.core.records import PermissionMode
from swarm.core.tags import split_tags

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine, to itself alone."""


def _state_home() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "swarm"


def _folders(text: str | None) -> list[Path]:
    return [Path(part).expanduser() for part in (text or "").split(os.pathsep) if part]


def check_hub(url: str) -> str:
    """A hub's URL in the form that is compared. Raises `ValueError` for what git must not be given."""
    url = url.strip().rstrip("/")
    scheme, parted, rest = url.partition("://")
    if url.startswith("/"):
        return url
    if not parted or scheme not in ("http", "https", "ssh", "file"):
        raise ValueError(f"{url!r} is neither an http, https, ssh or file URL nor an absolute path")
    if scheme != "ssh" and "@" in rest.partition("/")[0]:
        raise ValueError("a password does not belong into the URL, which everybody sees; give it as SWARM_HUB_TOKEN")
    return url


UserHooks = Literal["sandbox", "host", "off"]
Durability = Literal["off", "effects", "all"]


class Settings(BaseSettings):
    """What a person may set. Every field is a variable `SWARM_<FIELD>`; durations are in seconds."""

    model_config = SettingsConfigDict(env_prefix="SWARM_", extra="ignore", frozen=True)

    redis_url: str | None = None
    """`redis://`, `rediss://`, `unix://` or `sentinel://host:port,host:port/service/db`. Unset: the local Redis of `state_dir`."""
    state_dir: Path | None = None
    """Where the local stack keeps its Redis, sockets and logs. Default: `$XDG_STATE_HOME/swarm`."""
    key_prefix: str = "swarm"
    """First part of every Redis key, and of the Celery queue: two swarms can share one Redis."""

    provider: Literal["anthropic", "bedrock", "vertex"] = "anthropic"
    """Whose Messages API; `bedrock` and `vertex` need the extras of those names."""
    model: str = "sonnet"
    """Model of agents whose definition names none: an alias (`haiku`, `sonnet`, `opus`) or a full id."""
    compact_tokens: int = Field(default=160_000, ge=0)
    """How long a conversation may get, in tokens, before a summary takes its place; 0: as long as the model's context allows."""
    small_model: str = "haiku"
    """Model that writes summaries where the conversation is no longer in the prompt cache, and lines for people who watch: an alias
    or a full id."""
    summary_seconds: float = Field(default=30.0, gt=0)
    """How often, at most, a line is made about an agent at work, where that was asked for (`swarm run --summaries`)."""
    prices_file: Path | None = None
    """YAML that overrides rows of the shipped table of prices and context sizes."""
    base_url: str | None = None
    """Another server of the Messages API (`swarm rehearse` prints one). Default: the SDK's own choice."""
    request_timeout_seconds: float = 600.0
    """How long one model request may take in all."""
    batch_seconds: float = Field(default=30.0, gt=0)
    """For how long requests that have time (`swarm map --batch`) are gathered before they are sent as one batch."""
    silence_seconds: float = Field(default=60.0, gt=0)
    """After this long without a sign of life from the model's server (a ping is one) a request counts as hung."""
    recheck_seconds: float = Field(default=60.0, gt=0)
    """Of a worker: for how long it leaves agents to others whose model it was refused, before it tries again."""
    job_file: Path | None = None
    """Of a worker: the file that names the one job it is there for now; nothing in it: none."""
    keep_seconds: float = Field(default=300.0, ge=0)
    """How long what `swarm run` started stays up for the next one; 0: it ends with the command."""
    only_job: str | None = None
    """Of a worker: the one job that it is for."""

    log_format: Literal["text", "json"] = "text"
    """How workers, the hub and `swarm telemetry` write their logs: lines for people, or a JSON document each."""

    tools: str = ""
    """Modules with tools of your own, parted by commas; beside those of installed packages (the entry points `swarm.tools`)."""

    instruction_files: bool = True
    """Whether agents are given instruction files (`CLAUDE.md`, `AGENTS.md`, rules) of people and projects."""
    tags: str = ""
    """Of a worker: what it is, in words parted by commas (`gpu,trusted`), for agents and tools that require that."""

    mcp_servers: str = ""
    """Of a worker: names of MCP servers that it has and others may not (a program, a variable), parted by commas. Agents that have a server
    which a worker names run only where it is named."""
    mcp_env: str = ""
    """Of a worker: variables of its environment, or patterns of their names (`GITHUB_*`), parted by commas, that MCP servers may be
    given where their configuration has `${NAME}`."""

    mcp_token_key: str | None = Field(default=None, min_length=32, repr=False)
    """What logins at MCP servers are sealed with in Redis: the same secret, 32 characters or more, for workers and for who logs in
    (`openssl rand -hex 32`). Unset: with this machine's own Redis a file in `state_dir`, which is made by the first login."""
    mcp_idle_seconds: float = Field(default=900.0, gt=0)
    """Of a worker: how long an MCP server that its host runs may go without a call before it is ended; the next call starts it anew."""

    memory_owner: str | None = None
    """Whose memory of the scope `user` agents have. Default: the login name of whoever submits the job."""

    sandbox: Literal["auto", "bubblewrap", "landlock", "off"] = "auto"
    """What holds the processes that agents start; `auto`: bubblewrap where it works, else Landlock. `swarm doctor` shows it."""
    question_seconds: float = Field(default=3_600.0, ge=0)
    """How long a question to a person can be answered; then the call is denied."""

    checkouts: Path | None = None
    """Where copies of workspaces lie, the same on all hosts. Default: beside `state_dir`, by the name of that and `-checkouts`."""
    hub: str | None = None
    """A git URL through which files follow their agents from host to host; one that ends in `.git` is one repository for all jobs, any
    other has `/jobs/JOB.git` below it. Unset: all workers see the workspace under its own path."""
    hub_token: str | None = Field(default=None, repr=False)
    """What the hub asks for as a password; it is sent to no other URL."""
    snapshots: bool = False
    """Without a hub: keep the workspace's files in a snapshot after each call that may change them, on the worker's host."""
    workspaces: str | None = None
    """Of a worker: the only folders, separated by colons, that workspaces may be or lie below. Unset: any folder."""
    mode_ceiling: PermissionMode | None = None
    """Of a worker: the most permissive mode that its agents work in, whatever a job asks for. Unset: any."""
    network: Literal["off", "public", "private"] = "public"
    """Of a worker: what agents reach whose job has the network. Never this host, link-local addresses or Redis."""

    brokers: dict[str, str] = Field(default={}, repr=False)
    """Of a worker: Celery brokers of other applications by name, as JSON: `{"shop": "redis://host/1"}`. On them it publishes what is
    to follow a job's end: `on_end`, and the rest of a canvas that a job is a step of."""

    webhook_secret: str | None = Field(default=None, repr=False)
    """What webhooks are signed with (`whsec_…`, of Standard Webhooks; several, parted by spaces, while one takes the other's place): of a
    worker for those of `SWARM_WEBHOOKS`, of whoever submits for the one that a job brings."""
    webhooks: dict[str, str] = Field(default={}, repr=False)
    """Of a worker: addresses by name, as JSON, that are told of each job's end, of questions that wait for a person, and of budgets that
    run out: `{"ops": "https://example.org/swarm"}`."""
    job_webhooks: Literal["off", "public", "private"] = "off"
    """Of a worker: where it delivers what jobs are to tell at addresses of their own (`swarm run --webhook`). Never this host, link-local
    addresses or Redis, but for `SWARM_WEB_HOSTS`."""

    managed_hooks: Path | None = None
    """Of a worker: a file of the operator's with hooks (`{"hooks": ...}`), which are run for every agent here, outside of its sandbox."""
    user_hooks: UserHooks = "sandbox"
    """Of a worker: where the hooks of the people who submit jobs are run: in their agent's sandbox; as the worker itself, which a local
    worker does; or nowhere."""

    web_hosts: str = ""
    """Of a worker: hosts (`host` or `host:port`), parted by commas, that WebFetch and webhooks of jobs reach although their addresses are
    private."""

    flower_hosts: str = ""
    """Host names, separated by commas, under which Flower is reached, beside `localhost` and addresses."""
    flower_open: str = ""
    """Which of `healthcheck` and `metrics` Flower shows without login and token, separated by commas."""

    flower_token: str | None = None
    """What opens a Flower without a login. Default: one that is made once and kept in `state_dir`."""

    lease_seconds: float = Field(default=15.0, gt=0)
    """How long a worker may be silent before its agents are given to others."""
    sweep_seconds: float = Field(default=2.0, gt=0)
    """How often workers look for expired leases, due timers and messages that were lost."""
    durability: Durability = "off"
    """What is waited for until it is on Redis' disk: nothing; that a call with effects begins, before it does; or that and each reply
    that is paid for, and a job that is submitted. It needs `WAITAOF` (Redis 7.2 or Valkey) and `appendonly yes`."""
    segment_seconds: float = 900.0
    """After this long an agent goes back to the queue at its next turn boundary, so that others get a process."""
    hard_limit_seconds: float = 2400.0
    """A segment that runs longer is killed: the guard against a hung process."""
    max_deaths: int = 5
    """An agent that kills its worker this often in the same place is failed instead of tried again."""
    retention_seconds: float = 7 * 86_400.0
    """How long finished jobs are kept."""
    checkouts_mib: int = Field(default=20_480, gt=0)
    """Of a worker: above this, checkouts of agents that have ended or moved are removed from its host, the least recently used first."""
    hub_job_mib: int = Field(default=2_048, gt=0)
    """Of `swarm hub`: the most that one job's files, in all their states, may take there."""
    hub_mib: int = Field(default=51_200, gt=0)
    """Of `swarm hub`: the most that all it keeps may take. A GiB of its disk stays free in any case."""

    @field_validator("workspaces")
    @classmethod
    def _check_workspaces(cls, value: str | None) -> str | None:
        wrong = [folder for folder in _folders(value) if not folder.is_absolute()]
        if wrong:
            raise ValueError(f"{str(wrong[0])!r} is not an absolute path")
        return value

    @field_validator("hub")
    @classmethod
    def _check_hub(cls, value: str | None) -> str | None:
        return check_hub(value) if value else None

    @field_validator("tags", "mcp_servers")
    @classmethod
    def _check_tags(cls, value: str) -> str:
        split_tags(value)
        return value

    @field_validator("brokers")
    @classmethod
    def _check_brokers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            if not re.fullmatch(r"[\w.-]{1,64}", name):
                raise ValueError(f"{name!r} is no name: use letters, digits, `.`, `-` and `_`")
            if "://" not in url:
                raise ValueError(f"what {name!r} names is no URL of a broker, as redis://host:6379/1 is")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _check_secret(cls, value: str | None) -> str | None:
        for secret in (value or "").split():
            if not re.fullmatch(r"whsec_[A-Za-z0-9+/]{32,}={0,2}", secret):
                raise ValueError(
                    "a secret is `whsec_` and Base64 of 24 random bytes or more: echo whsec_$(openssl rand -base64 24)"
                )
        return value

    @field_validator("webhooks")
    @classmethod
    def _check_webhooks(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, url in value.items():
            if not re.fullmatch(r"[\w.-]{1,64}", name) or name == "job":
                raise ValueError(f"{name!r} is no name: use letters, digits, `.`, `-` and `_`, and not `job`")
            if not re.match(r"https?://[^/@\s]+(/|$)", url):
                raise ValueError(f"what {name!r} names is no address that begins with https:// or http://")
        if value and not (info.data.get("webhook_secret") or "").strip():
            raise ValueError("set SWARM_WEBHOOK_SECRET, too: what is sent is signed with it")
        return value

    @field_validator("flower_open")
    @classmethod
    def _check_flower_open(cls, value: str) -> str:
        wrong = set(filter(None, map(str.strip, value.split(",")))) - {"healthcheck", "metrics"}
        if wrong:
            raise ValueError(f"{min(wrong)!r} is neither healthcheck nor metrics")
        return value

    def mcp_variables(self) -> list[str]:
        """The names and patterns of `mcp_env`."""
        return [name for part in self.mcp_env.split(",") if (name := part.strip())]

    def local_user_hooks(self) -> UserHooks:
        """Where a worker that is started with this machine's own Redis runs hooks: nobody else can submit to it."""
        is_own = self.redis_url is None and "user_hooks" not in self.model_fields_set
        return "host" if is_own else self.user_hooks

    def tag_names(self) -> list[str]:
        """The words of `tags`."""
        return split_tags(self.tags)

    def workspace_folders(self) -> list[Path]:
        """The folders of `workspaces`; none where any folder will do."""
        return _folders(self.workspaces)

    def state_folder(self) -> Path:
        """The local state folder, resolved; it need not exist yet."""
        return (self.state_dir or _state_home()).expanduser().absolute()

    def checkouts_folder(self) -> Path:
        """Where copies of workspaces lie; it need not exist yet."""
        state = self.state_folder()
        return (self.checkouts or state.with_name(f"{state.name}-checkouts")).expanduser().absolute()


def load_settings() -> Settings:
    """Read the environment. Raises `ConfigurationError` naming the variable that cannot be used."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "SWARM_" + "_".join(str(part) for part in first["loc"]).upper()
        raise ConfigurationError(f"{name}: {first['msg']}. Correct or unset the variable.") from error


def http_address(host: str, port: int) -> str:
    """The URL of a server at an address; one of IPv6 stands in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
