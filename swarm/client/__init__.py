"""The client for programs and commands: jobs, maps, the check of an order, and taking over work."""
