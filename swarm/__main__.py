"""`python -m swarm`: the same as the command `swarm`."""

from swarm.cli import main

if __name__ == "__main__":
    main()
