"""Permissions of shell commands: parsed with Bash's grammar, matched by rules, judged part by part."""
