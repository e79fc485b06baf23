"""Agent definitions: the model, the shipped types, and readers for the common file formats."""
