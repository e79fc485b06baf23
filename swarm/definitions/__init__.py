"""What agents are made from: the model of a definition, the shipped ones, and readers of the formats people already have."""
