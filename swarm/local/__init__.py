"""A whole swarm on one machine: its Redis, its workers and Flower, started and stopped by the command line."""
