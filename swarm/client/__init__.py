"""What programs and commands use: the client, its jobs and maps, the check of an order, work that is taken over."""
