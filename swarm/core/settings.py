"""Settings from `SWARM_*` variables, read when a process starts and never at import."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from swarm.core.errors import ConfigurationError
from swarm.core.records import EndState, PermissionMode
from swarm.core.tags import split_tags

BOARD_MIB, PAD_MIB, MEMORY_MIB = 16, 16, 32
"""The most of a job's board, of its scratchpad, and of one memory store, unless a worker's settings say otherwise."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that only it can use."""


def _state_home() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "swarm"


def _folders(text: str | None) -> list[Path]:
    return [Path(part).expanduser() for part in (text or "").split(os.pathsep) if part]


def check_hub(url: str) -> str:
    """Return a hub's URL for comparison. Raises `ValueError` for a URL that git must not get."""
    url = url.strip().rstrip("/")
    scheme, parted, rest = url.partition("://")
    if url.startswith("/"):
        return url
    if not parted or scheme not in ("http", "https", "ssh", "file"):
        raise ValueError(f"{url!r} is neither an http, https, ssh or file URL nor an absolute path")
    if scheme != "ssh" and "@" in rest.partition("/")[0]:
        raise ValueError("the URL must not hold a password, because everybody sees it; set SWARM_HUB_TOKEN instead")
    return url


SHARED = {
    *(
        "hub",
        "objects",
        "key_prefix",
        "provider",
        "model",
        "small_model",
        "compact_tokens",
        "base_url",
        "server",
        "mode_ceiling",
        "network",
        "workspaces",
    ),
    *(
        "user_hooks",
        "durability",
        "lease_seconds",
        "sweep_seconds",
        "segment_seconds",
        "hard_limit_seconds",
        "max_deaths",
    ),
    "retention_seconds",
    "retention_by_state",
    "archive_seconds",
}
"""Settings that the workers of a fleet have in common, besides the folder of checkouts."""
UserHooks = Literal["sandbox", "host", "off"]
Durability = Literal["off", "effects", "all"]


class Settings(BaseSettings):
    """All settings. Every field is a variable `SWARM_<FIELD>`; durations are in seconds."""

    model_config = SettingsConfigDict(env_prefix="SWARM_", extra="ignore", frozen=True)

    redis_url: str | None = None
    """`redis://`, `rediss://`, `unix://` or `sentinel://host:port,host:port/service/db`. Unset: the local Redis of `state_dir`."""
    state_dir: Path | None = None
    """Folder of the local stack's Redis, sockets and logs. Default: `$XDG_STATE_HOME/swarm`."""
    key_prefix: str = "swarm"
    """First part of every Redis key, and of the Celery queue: two swarms can share one Redis."""

    provider: Literal["anthropic", "bedrock", "vertex"] = "anthropic"
    """Provider of the Messages API; `bedrock` and `vertex` need the extras of those names."""
    model: str = "sonnet"
    """Model of agents whose definition names none: an alias (`haiku`, `sonnet`, `opus`) or a full id."""
    compact_tokens: int = Field(default=160_000, ge=0)
    """Tokens of a conversation above which a summary replaces it; 0: as long as the model's context allows."""
    small_model: str = "haiku"
    """Model for progress lines, and for summaries of conversations that have left the prompt cache: an alias or a full id."""
    summary_seconds: float = Field(default=30.0, gt=0)
    """Shortest interval between progress lines about an agent, if requested (`swarm run --summaries`)."""
    vendors: dict[str, str] = {}
    """Servers by name, for models named `NAME:MODEL`, as JSON: an address, the name of a variable with a key if it asks for one, and
    its format if that is not `chat`, `{"ours": "https://llm.example.org/v1 OURS_KEY responses"}`. They are added to the known ones."""
    prices_file: Path | None = None
    """YAML that overrides rows of the shipped table of prices and context sizes."""
    base_url: str | None = None
    """Another server of the Messages API (`swarm rehearse` prints one). Default: the SDK's own."""
    server: str | None = None
    """Kind of the server at `base_url`, such as `vllm`, if its address does not tell (docs/servers.md)."""
    record: Path | None = None
    """Worker: folder in which it keeps its requests to models and their replies, without apparent secrets (docs/replay.md)."""
    request_timeout_seconds: float = 600.0
    """Time limit of one model request."""
    batch_seconds: float = Field(default=30.0, gt=0)
    """How long batched requests (`swarm map --batch`) are gathered before they are sent."""
    silence_seconds: float = Field(default=60.0, gt=0)
    """A request counts as hung after this long without a sign of life from the model's server (a ping is one)."""
    recheck_seconds: float = Field(default=60.0, gt=0)
    """Worker: how long it leaves agents to others after their model was refused to it, or after a fault of its host."""
    job_file: Path | None = None
    """Worker: file that names the one job it serves now; an empty file means none."""
    keep_seconds: float = Field(default=300.0, ge=0)
    """How long the stack of `swarm run` stays up for the next one; 0: it ends with the command."""
    only_job: str | None = None
    """Worker: the only job that it serves."""

    log_format: Literal["text", "json"] = "text"
    """Log format of workers, the hub and `swarm telemetry`: lines for people, or a JSON document each."""

    tools: str = ""
    """Modules with your own tools, separated by commas, besides installed packages (entry points `swarm.tools`)."""

    instruction_files: bool = True
    """Whether agents receive instruction files (`CLAUDE.md`, `AGENTS.md`, rules) of people and projects."""
    tags: str = ""
    """Worker: its tags, separated by commas (`gpu,trusted`), which agents and tools can require."""

    mcp_servers: str = ""
    """Worker: MCP servers that it has and others may lack (a program, a variable), separated by commas. Agents with a named server run
    only on workers that name it."""
    mcp_env: str = ""
    """Worker: environment variables or patterns (`GITHUB_*`), separated by commas, for `${NAME}` in configurations of MCP servers."""

    mcp_token_key: str | None = Field(default=None, min_length=32, repr=False)
    """Key that seals MCP logins in Redis: the same secret of at least 32 characters for workers and for hosts of `swarm mcp login`
    (`openssl rand -hex 32`). Unset: with this machine's own Redis a file in `state_dir`, made by the first login."""
    mcp_idle_seconds: float = Field(default=900.0, gt=0)
    """Worker: how long its host keeps an MCP server without calls; the next call starts it again."""

    memory_owner: str | None = None
    """Owner of the agents' memory of the scope `user`. Default: the submitter's login name."""

    sandbox: Literal["auto", "bubblewrap", "landlock", "off"] = "auto"
    """Sandbox of agents' processes; `auto`: bubblewrap where it works, else Landlock. `swarm doctor` shows it."""
    question_seconds: float = Field(default=3_600.0, ge=0)
    """How long a question to a person stays open; then the call is denied."""

    checkouts: Path | None = None
    """Folder for copies of workspaces, the same on all hosts. Default: beside `state_dir`, with `-checkouts` added to its name."""
    hub: str | None = None
    """Git URL through which files follow agents from host to host. A URL that ends in `.git` is one repository for all jobs; any other
    has `/jobs/JOB.git` below it. Unset: all workers see the workspace under the same path."""
    hub_token: str | None = Field(default=None, repr=False)
    """The hub's password; it is sent to no other URL."""
    objects: str | None = None
    """Store for content too large for Redis, the same for all hosts: an absolute folder, or a URL (`s3://bucket/path`, `gs://`, `az://`)
    with the extra `objects`. Unset: the hub if it is a `swarm hub`, else a folder in `state_dir`; with a Redis that other hosts can reach,
    that folder gets no outputs of agents, which then stay in Redis."""
    snapshots: bool = False
    """Without a hub: store a snapshot of the workspace on the worker's host after each call that may change it."""
    workspaces: str | None = None
    """Worker: folders, separated by colons, that may be or contain workspaces. Unset: any folder."""
    mode_ceiling: PermissionMode | None = None
    """Worker: the most permissive mode of its agents, whatever a job asks for. Unset: any."""
    network: Literal["off", "public", "private"] = "public"
    """Worker: what agents of jobs with the network can reach. Never this host, link-local addresses or Redis."""

    brokers: dict[str, str] = Field(default={}, repr=False)
    """Worker: Celery brokers of other applications by name, as JSON: `{"shop": "redis://host/1"}`. It publishes callbacks there:
    `on_end`, and the rest of a canvas with a job as a step."""

    forges: dict[str, str] = {
        "github.com": "github:GITHUB_TOKEN",
        "gitlab.com": "gitlab:GITLAB_TOKEN",
        "codeberg.org": "gitea:CODEBERG_TOKEN",
        "file": "",
    }
    """Worker: Git servers of repositories that jobs name (`swarm run --repo`), as JSON: `{"git.example.org": "gitea:TOKEN"}`. The kind
    (`github`, `gitlab`, `gitea`) is for pull requests; after it comes the name of a variable, or the path of a file, with a token.
    `http://host` allows plain HTTP; `file` stands for local paths."""
    harnesses: dict[str, str] = {}
    """Worker: programs of other coding agents that are not on the PATH, or that `harness: acp` needs, by name, as JSON:
    `{"claude-code": "/opt/claude/bin/claude", "goose": "/opt/goose/bin/goose"}` (docs/harnesses.md)."""
    history_depth: int = Field(default=0, ge=0)
    """Worker: commits of history that it fetches of such a repository; 0: all."""

    webhook_secret: str | None = Field(default=None, repr=False)
    """Key that signs webhooks (`whsec_…`, of Standard Webhooks; several, separated by spaces, during a rotation). Workers use theirs for
    `SWARM_WEBHOOKS`; submitters set one for their jobs' webhooks."""
    webhooks: dict[str, str] = Field(default={}, repr=False)
    """Worker: webhook addresses by name, as JSON, for each job's end, open questions and exhausted budgets: `{"ops":
    "https://example.org/swarm"}`."""
    job_webhooks: Literal["off", "public", "private"] = "off"
    """Worker: where it delivers webhooks of jobs (`swarm run --webhook`). Never this host, link-local addresses or Redis, except
    `SWARM_WEB_HOSTS`."""

    managed_hooks: Path | None = None
    """Worker: the operator's hook file (`{"hooks": ...}`), which runs for every agent here, outside its sandbox."""
    user_hooks: UserHooks = "sandbox"
    """Worker: where hooks of submitters run: in their agent's sandbox; as the worker itself, which a local worker does; or nowhere."""

    web_hosts: str = ""
    """Worker: hosts (`host` or `host:port`), separated by commas, that WebFetch and jobs' webhooks can reach although their addresses are
    private."""

    flower_hosts: str = ""
    """Host names for Flower, separated by commas, besides `localhost` and addresses."""
    flower_open: str = ""
    """Flower pages without login and token, separated by commas: `healthcheck`, `metrics`."""

    flower_token: str | None = None
    """Token for a Flower without a login. Default: one that is made once and kept in `state_dir`."""

    lease_seconds: float = Field(default=15.0, gt=0)
    """How long a worker may be silent before others get its agents."""
    sweep_seconds: float = Field(default=2.0, gt=0)
    """How often workers look for expired leases, due timers and lost messages."""
    durability: Durability = "off"
    """Writes that must reach Redis' disk first: none (`off`); the start of a call with effects (`effects`); and also each paid reply and
    each submitted job (`all`). Needs `WAITAOF` (Redis 7.2 or Valkey) and `appendonly yes`."""
    segment_seconds: float = 900.0
    """After this long an agent returns to the queue at its next turn boundary, so that others get a process."""
    hard_limit_seconds: float = 2400.0
    """A segment that runs longer is killed, as a guard against hung processes."""
    max_deaths: int = 5
    """An agent that kills its worker this often in the same place fails instead of being retried."""
    retention_seconds: float = 7 * 86_400.0
    """How long finished jobs are kept."""
    retention_by_state: dict[EndState, float] = {}
    """How long jobs that ended in these states are kept instead, as JSON: `{"failed": 2592000, "cancelled": 3600}`."""
    archive_seconds: float | None = Field(default=None, ge=0)
    """How long after its end a job moves from Redis to the store of objects; commands read it there. Unset: never."""
    full_share: float = Field(default=0.85, gt=0, le=1)
    """Worker: share of Redis' `maxmemory` (without one, of its host's memory) above which no new job or child starts."""
    page: str | None = None
    """Worker: address of the page in Flower, for links that jobs leave at forges: `https://swarm.example.org/swarm`."""
    agent_outputs_mib: int = Field(default=32, gt=0)
    """Worker: most space for long outputs that one agent keeps; above it the oldest are dropped, and the agent is told."""
    job_outputs_mib: int = Field(default=256, gt=0)
    """Worker: most space for long outputs that all agents of a job keep."""
    agent_journal_mib: int = Field(default=64, gt=0)
    """Worker: space of an agent's journal above which the agent is asked for its final answer."""
    job_journals_mib: int = Field(default=2_048, gt=0)
    """Worker: space of the journals of all agents of a job above which each is asked for its final answer."""
    agent_mail_mib: int = Field(default=16, gt=0)
    """Worker: most space for all messages that an agent ever receives; above it a sender is refused."""
    job_mail_mib: int = Field(default=256, gt=0)
    """Worker: most space for all messages in a job; above it agents send none."""
    job_board_mib: int = Field(default=BOARD_MIB, gt=0)
    """Worker: most space for a job's board; above it no task, description or note is added, and tasks can still be completed."""
    job_pad_mib: int = Field(default=PAD_MIB, gt=0)
    """Worker: most space for a job's scratchpad; above it agents must delete pages first."""
    memory_mib: int = Field(default=MEMORY_MIB, gt=0)
    """Worker: most space for one memory store, versions of its pages included; above it histories of deleted pages go, then agents must
    delete pages first."""
    checkouts_mib: int = Field(default=20_480, gt=0)
    """Worker: above this size, checkouts of ended or moved agents are removed from its host, the least recently used first."""
    dependency_folders: str = "node_modules,.venv,target"
    """Worker with a hub: names of folders that Git ignores and that follow their agents all the same, separated by commas."""
    disk_reserve_mib: int = Field(default=1_024, ge=0)
    """Worker with a hub: free space of the checkouts' disk below which it removes spares and checkouts of ended or moved agents, and, if
    that does not help, takes no agents and hands over those it has."""
    hub_job_mib: int = Field(default=2_048, gt=0)
    """`swarm hub`: most space for one job's files, in all their states."""
    hub_mib: int = Field(default=51_200, gt=0)
    """`swarm hub`: most space for all jobs. A GiB of its disk always stays free."""

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

    @field_validator("page")
    @classmethod
    def _check_page(cls, value: str | None) -> str | None:
        if value and not re.fullmatch(r"https?://[^\s?#@]+", value):
            raise ValueError(
                f"{value!r} is no http or https address without `?`, `#` and a name; give that of the page"
            )
        return value.rstrip("/") if value else None

    @field_validator("objects")
    @classmethod
    def _check_objects(cls, value: str | None) -> str | None:
        place = (value or "").rstrip("/")
        if place and not re.match(r"/|(s3|s3a|gs|az|abfss?)://[^/@]", place):
            raise ValueError(f"{value!r} is neither an absolute folder nor an s3://, gs:// or az:// URL")
        return place or None

    @field_validator("dependency_folders")
    @classmethod
    def _check_names(cls, value: str) -> str:
        if "/" in value or {".", "..", ".git"} & {name.strip() for name in value.split(",")}:
            raise ValueError(f"{value!r} must be names of folders, such as node_modules, not paths")
        return value

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
                raise ValueError(f"{name!r} is not a name; use letters, digits, `.`, `-` and `_`")
            if "://" not in url:
                raise ValueError(f"{name!r} needs a broker URL, for instance redis://host:6379/1")
        return value

    @field_validator("forges")
    @classmethod
    def _check_forges(cls, value: dict[str, str]) -> dict[str, str]:
        for host, given in value.items():
            if not re.fullmatch(r"file|(http://)?[A-Za-z0-9.-]+(:\d+)?|(http://)?\[[0-9a-f:]+\](:\d+)?", host):
                raise ValueError(f"{host!r} is no host; use `git.example.org`, or `http://host:port` for plain HTTP")
            if not re.fullmatch(r"((github|gitlab|gitea):)?([A-Za-z_][A-Za-z0-9_]*|/.+)?", given):
                raise ValueError(
                    f"{host!r} needs `KIND:SECRET`: github, gitlab or gitea, and the name of a variable or an absolute path"
                )
        return value

    @field_validator("harnesses")
    @classmethod
    def _check_harnesses(cls, value: dict[str, str]) -> dict[str, str]:
        for name, program in value.items():
            if not re.fullmatch(r"[\w.@+-]+", name) or not program.startswith("/"):
                raise ValueError(f"{name!r} needs the absolute path of a program, not {program!r}")
        return value

    @field_validator("vendors")
    @classmethod
    def _check_vendors(cls, value: dict[str, str]) -> dict[str, str]:
        for name, given in value.items():
            if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
                raise ValueError(f"{name!r} is no name of a vendor; use small letters, digits, `-` and `_`")
            if not re.fullmatch(r"https?://[^\s/]+\S*( +[A-Za-z_][A-Za-z0-9_]*)?( +(chat|responses|gemini))?", given):
                raise ValueError(
                    f"{name!r} needs `URL [VARIABLE] [FORMAT]`, for instance https://llm.example.org/v1 OURS_KEY responses; "
                    "formats are chat, responses and gemini"
                )
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
                raise ValueError(f"{name!r} is not a name; use letters, digits, `.`, `-` and `_`, and not `job`")
            if not re.match(r"https?://[^/@\s]+(/|$)", url):
                raise ValueError(f"{name!r} needs an address that begins with https:// or http://")
        if value and not (info.data.get("webhook_secret") or "").strip():
            raise ValueError("set SWARM_WEBHOOK_SECRET, too: it signs the webhooks")
        return value

    @field_validator("flower_open")
    @classmethod
    def _check_flower_open(cls, value: str) -> str:
        wrong = set(filter(None, map(str.strip, value.split(",")))) - {"healthcheck", "metrics"}
        if wrong:
            raise ValueError(f"{min(wrong)!r} is neither healthcheck nor metrics")
        return value

    def __hash__(self) -> int:
        # Equal settings have equal hashes; some fields have none.
        return hash((self.redis_url, self.state_dir, self.key_prefix))

    def shared(self) -> dict[str, str]:
        """Return the variables that a new host of the fleet needs, too, with their values. None of them is a secret."""
        given = self.model_dump(mode="json", include=set(SHARED & self.model_fields_set), exclude_none=True)
        values = {**given, "checkouts": self.checkouts_folder()}
        told = {name: json.dumps(value) if isinstance(value, dict) else str(value) for name, value in values.items()}
        # A URL with a password.
        return {f"SWARM_{name.upper()}": value for name, value in told.items() if "@" not in value}

    def secrets(self) -> list[str]:
        """Return the variables of secrets that are set."""
        fields = type(self).model_fields
        return [f"SWARM_{name.upper()}" for name in fields if name in self.model_fields_set and not fields[name].repr]

    def mcp_variables(self) -> list[str]:
        """Return the names and patterns of `mcp_env`."""
        return [name for part in self.mcp_env.split(",") if (name := part.strip())]

    def local_user_hooks(self) -> UserHooks:
        """Return where a local stack's worker runs hooks: no one else can submit to it."""
        is_own = self.redis_url is None and "user_hooks" not in self.model_fields_set
        return "host" if is_own else self.user_hooks

    def tag_names(self) -> list[str]:
        """Return the words of `tags`."""
        return split_tags(self.tags)

    def workspace_folders(self) -> list[Path]:
        """Return the folders of `workspaces`; empty where any folder will do."""
        return _folders(self.workspaces)

    def state_folder(self) -> Path:
        """Return the local state folder, resolved; it need not exist yet."""
        return (self.state_dir or _state_home()).expanduser().absolute()

    @property
    def dependency_names(self) -> frozenset[str]:
        """Names of folders that follow their agents though Git ignores them."""
        return frozenset(filter(None, (name.strip() for name in self.dependency_folders.split(","))))

    def checkouts_folder(self) -> Path:
        """Return the folder for copies of workspaces; it need not exist yet."""
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
    """Return the URL of a server at an address; IPv6 stands in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
