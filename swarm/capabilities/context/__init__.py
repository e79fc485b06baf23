"""An agent's context besides its task: instruction files, and the message after a summary."""
