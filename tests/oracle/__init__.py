"""Claude Code's own CLI as the oracle: what it decides, loads and reads, compared with ours."""
