"""The page in Flower: watch and steer every agent of every job."""
