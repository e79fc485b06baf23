"""The screens of `swarm top`: fleet, job, agent. Only these modules use Textual."""
