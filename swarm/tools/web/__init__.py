"""The web for agents: fetching a page where addresses of one's own are out of reach, reading it, searching."""
