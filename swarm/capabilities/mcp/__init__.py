"""External tools by the Model Context Protocol: a job's servers and the client side of them."""
