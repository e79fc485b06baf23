"""The environment variables of an agent's processes: the ones that programs need, and no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from swarm.core.secrets import is_secret

_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "LC_*", "XDG_*", "CI"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PIP_*", "UV_*", "NVM_DIR", "NPM_CONFIG_*", "npm_config_*"),
    *("JAVA_HOME", "MAVEN_HOME", "GRADLE_USER_HOME", "GOPATH", "GOROOT", "GOPROXY", "GOFLAGS", "GOCACHE", "GOMODCACHE"),
    *("CARGO_HOME", "RUSTUP_HOME", "CC", "CXX", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
)
_FIXED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def clean_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a worker's environment that agents may see, and settings that keep programs from waiting."""
    kept = {name: value for name, value in inherited.items() if _is_kept(name, value)}
    return kept | _FIXED


def _is_kept(name: str, value: str) -> bool:
    if not any(fnmatchcase(name, pattern) for pattern in _KEPT):
        return False
    return not is_secret(name, value)
