"""Outside tools by the Model Context Protocol: which servers there are, and what speaks with them."""
