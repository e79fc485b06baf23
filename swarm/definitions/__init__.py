"""What agents are made from: the model, the shipped ones, and readers of the formats people already have."""
