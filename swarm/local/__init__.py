"""A whole swarm on one machine: Redis, workers and Flower, started and stopped by the command line."""
