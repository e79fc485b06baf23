"""Reproducible benchmarks: each prints its figures beside a baseline measured in the same run. See `bench/README.md`."""
