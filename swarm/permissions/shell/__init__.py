"""Shell commands as permissions see them: parsed with Bash's grammar, matched by rules, judged part by part."""
