"""The full screen of `swarm top`: fleet, job, agent. The only place that knows Textual."""
