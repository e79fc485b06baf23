"""What agents remember across jobs: pages on shelves, with the tool that reads and writes them."""
