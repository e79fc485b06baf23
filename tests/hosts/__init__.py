"""Several hosts on one machine: network, mounts, processes and names of their own, joined by a switch. Needs root."""
