"""The page in Flower: every agent of every job, to look at and to steer."""
